//! Where the members of CUPTI's records are.
//!
//! Records grow at their end only, so one table serves CUPTI 11.8 to 13.5: what every version has is read from the fixed
//! part, and what came later if the record is long enough. `tests/gpu` compiles this table against NVIDIA's headers.

/// One member of one record.
#[derive(Debug, Clone, Copy)]
#[doc(hidden)]
pub struct Member {
    /// The record's name in `tests/gpu/fake/records.h`.
    pub record: &'static str,
    /// The member's name in NVIDIA's headers.
    pub member: &'static str,
    /// In bytes from the start of the record.
    pub offset: usize,
    /// In bytes.
    pub width: usize,
    /// The first version of CUPTI's interface that has it; 0 for all.
    pub since: u32,
}

macro_rules! records {
    ($(
        $(#[$meta:meta])*
        $record:ident[$size:literal] {
            $($member:ident($($path:ident).+): $kind:ident @ $offset:literal,)*
        }
        then {
            $($late:ident: $late_kind:ident @ $late_offset:literal since $since:literal,)*
        }
    )*) => {
        $(
            $(#[$meta])*
            #[derive(Debug, Clone, Copy)]
            pub(super) struct $record<'a> {
                fixed: &'a [u8; $size],
                all: &'a [u8],
            }

            impl<'a> $record<'a> {
                /// The record in `all`, its bytes; `None` if it is cut.
                #[inline]
                pub(super) fn of(all: &'a [u8]) -> Option<Self> {
                    Some(Self { fixed: all.first_chunk()?, all })
                }

                /// The rest of the record after its fixed part.
                #[allow(dead_code, reason = "some records have nothing more")]
                #[inline]
                fn later<const N: usize>(&self, offset: usize) -> Option<[u8; N]> {
                    self.all.get(offset..offset + N)?.try_into().ok()
                }

                $(
                    #[inline]
                    pub(super) fn $member(&self) -> $kind {
                        const WIDTH: usize = size_of::<$kind>();
                        const { assert!($offset + WIDTH <= $size) };
                        let mut bytes = [0; WIDTH];
                        bytes.copy_from_slice(&self.fixed[$offset..$offset + WIDTH]);
                        $kind::from_le_bytes(bytes)
                    }
                )*
                $(
                    #[inline]
                    #[allow(non_snake_case, reason = "the names are NVIDIA's")]
                    pub(super) fn $late(&self) -> Option<$late_kind> {
                        self.later($late_offset).map($late_kind::from_le_bytes)
                    }
                )*
            }
        )*

        /// Every member that is read, for the tests.
        #[doc(hidden)]
        pub const MEMBERS: &[Member] = &[$(
            $(Member {
                record: stringify!($record),
                member: concat!($(stringify!($path), "."),+),
                offset: $offset,
                width: size_of::<$kind>(),
                since: 0,
            },)*
            $(Member {
                record: stringify!($record),
                member: concat!(stringify!($late), "."),
                offset: $late_offset,
                width: size_of::<$late_kind>(),
                since: $since,
            },)*
        )*];
    };
}

records! {
    /// CONCURRENT_KERNEL
    Kernel[176] {
        registers(registersPerThread): u16 @ 6,
        start(start): u64 @ 16,
        end(end): u64 @ 24,
        device(deviceId): u32 @ 40,
        context(contextId): u32 @ 44,
        stream(streamId): u32 @ 48,
        grid_x(gridX): u32 @ 52,
        grid_y(gridY): u32 @ 56,
        grid_z(gridZ): u32 @ 60,
        block_x(blockX): u32 @ 64,
        block_y(blockY): u32 @ 68,
        block_z(blockZ): u32 @ 72,
        static_shared(staticSharedMemory): u32 @ 76,
        dynamic_shared(dynamicSharedMemory): u32 @ 80,
        correlation(correlationId): u32 @ 92,
        name(name): u64 @ 104,
        graph_node(graphNodeId): u64 @ 144,
        graph(graphId): u32 @ 156,
        channel(channelID): u32 @ 168,
        channel_type(channelType): u32 @ 172,
    } then {
        clusterX: u32 @ 176 since 18,
        clusterY: u32 @ 180 since 18,
        clusterZ: u32 @ 184 since 18,
        priority: i32 @ 216 since 130100,
    }

    /// MEMCPY
    Memcpy[84] {
        copy_kind(copyKind): u8 @ 4,
        source(srcKind): u8 @ 5,
        target(dstKind): u8 @ 6,
        bytes(bytes): u64 @ 8,
        start(start): u64 @ 16,
        end(end): u64 @ 24,
        device(deviceId): u32 @ 32,
        context(contextId): u32 @ 36,
        stream(streamId): u32 @ 40,
        correlation(correlationId): u32 @ 44,
        graph_node(graphNodeId): u64 @ 64,
        graph(graphId): u32 @ 72,
        channel(channelID): u32 @ 76,
        channel_type(channelType): u32 @ 80,
    } then {}

    /// MEMCPY2: between devices
    Peer[92] {
        copy_kind(copyKind): u8 @ 4,
        source(srcKind): u8 @ 5,
        target(dstKind): u8 @ 6,
        bytes(bytes): u64 @ 8,
        start(start): u64 @ 16,
        end(end): u64 @ 24,
        device(deviceId): u32 @ 32,
        context(contextId): u32 @ 36,
        stream(streamId): u32 @ 40,
        origin(srcDeviceId): u32 @ 44,
        origin_context(srcContextId): u32 @ 48,
        goal(dstDeviceId): u32 @ 52,
        goal_context(dstContextId): u32 @ 56,
        correlation(correlationId): u32 @ 60,
        graph_node(graphNodeId): u64 @ 72,
        graph(graphId): u32 @ 80,
        channel(channelID): u32 @ 84,
        channel_type(channelType): u32 @ 88,
    } then {}

    /// MEMSET
    Memset[84] {
        value(value): u32 @ 4,
        bytes(bytes): u64 @ 8,
        start(start): u64 @ 16,
        end(end): u64 @ 24,
        device(deviceId): u32 @ 32,
        context(contextId): u32 @ 36,
        stream(streamId): u32 @ 40,
        correlation(correlationId): u32 @ 44,
        memory(memoryKind): u16 @ 50,
        graph_node(graphNodeId): u64 @ 64,
        graph(graphId): u32 @ 72,
        channel(channelID): u32 @ 76,
        channel_type(channelType): u32 @ 80,
    } then {}

    /// RUNTIME and DRIVER
    Api[40] {
        callback(cbid): u32 @ 4,
        start(start): u64 @ 8,
        end(end): u64 @ 16,
        thread(threadId): u32 @ 28,
        correlation(correlationId): u32 @ 32,
        result(returnValue): i32 @ 36,
    } then {}

    /// EXTERNAL_CORRELATION
    External[20] {
        kind(externalKind): u32 @ 4,
        id(externalId): u64 @ 8,
        correlation(correlationId): u32 @ 16,
    } then {}

    /// OVERHEAD
    Overhead[40] {
        what(overheadKind): u32 @ 4,
        start(start): u64 @ 24,
        end(end): u64 @ 32,
    } then {}

    /// SYNCHRONIZATION
    Sync[40] {
        what(type): u32 @ 4,
        start(start): u64 @ 8,
        end(end): u64 @ 16,
        correlation(correlationId): u32 @ 24,
        context(contextId): u32 @ 28,
        stream(streamId): u32 @ 32,
        event(cudaEventId): u32 @ 36,
    } then {}

    /// MARKER
    Marker[56] {
        flags(flags): u32 @ 4,
        time(timestamp): u64 @ 8,
        id(id): u32 @ 16,
        object(objectKind): u32 @ 20,
        thread(objectId.pt.threadId): u32 @ 28,
        name(name): u64 @ 40,
    } then {}

    /// CONTEXT
    Context[12] {
        id(contextId): u32 @ 4,
        device(deviceId): u32 @ 8,
    } then {}
}
