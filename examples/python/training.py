"""A made-up training run of two ranks, with everything in it that a profiler or a framework records: docs/guide-python.md.

    pip install "$TPTRACE/bindings/python"
    python training.py [FOLDER]

Rank 0 writes its trace in three formats. Rank 1 is killed in its last step; its trace comes from its journal. Both become
one. A flight recorder keeps the last of many requests. The folder is made, and may be there.
"""

import os
import pathlib
import queue
import signal
import subprocess
import sys
import threading

import tptrace

RANKS, STEPS, ROWS, REQUESTS = 2, 4, 32, 40_000
LAYERS = (("linear", "gemm"), ("gelu", "gelu_kernel"))


def compute(rounds):
    return sum(1.0 / i for i in range(1, rounds * 100))


def name_lane(trace):
    """Threads that live when the trace is written are named by themselves; those that end before say their name."""
    trace.set_thread_name(threading.get_native_id(), threading.current_thread().name)


def load(trace, batches):
    """The loader: a thread of its own, one batch ahead of the trainer."""
    name_lane(trace)
    for step in range(STEPS):
        with trace.span("load batch", category="dataloader", step=step):
            compute(100)
            # The arrow starts at the span that is open here, and ends at the step that takes the batch.
            trace.record_flow("start", "batch", step, category="dataloader")
        batches.put(step)


def write_checkpoint(trace):
    """An async span that began on the trainer's thread ends on this one."""
    name_lane(trace)
    with trace.span("write checkpoint", category="io"):
        compute(200)
    trace.record_async("end", "checkpoint", 1, category="io")


@tptrace.span("backward", category="train")  # of the current trace
def backward():
    compute(200)


class Gpu:
    """A made-up GPU: what its driver would tell of the kernels that ran."""

    def __init__(self):
        self.correlation = self.free_ns = 0

    def add_layer(self, trace, layer, op, kernel, start, end):
        """What a framework's own profiler has after a step: ops and GPU work with given times."""
        thread = threading.get_native_id()  # the number that live spans go by
        id = trace.add_op(
            op, start, end, thread_id=thread, shapes=[(ROWS, 1024), (1024, 1024)], dtypes=["float", "float"], args={"layer": layer}
        )
        # The call that launched the kernel, and the kernel on its stream: one correlation id, and the op's id in both.
        third = (end - start) // 3
        self.correlation += 1
        joined = {"correlation_id": self.correlation, "external_id": id}
        trace.add_gpu("runtime", "cudaLaunchKernel", start + third, start + 2 * third, os_thread=thread, **joined)
        begins = max(start + 2 * third, self.free_ns)
        self.free_ns = begins + third
        trace.add_gpu("kernel", kernel, begins, self.free_ns, stream=7, grid=(ROWS, 1, 1), block=(256, 1, 1), **joined)


def train_step(trace, gpu, step, killed):
    times = []
    with tptrace.span("forward", category="train", rows=ROWS):
        compute(50)
        if killed:
            trace.sync_journal()  # it happens by itself within a second; this example does not wait
            os.kill(os.getpid(), signal.SIGKILL)
        for _ in LAYERS:
            start = tptrace.now_ns()
            compute(100)
            times.append((start, tptrace.now_ns()))
            compute(20)
    backward()
    tptrace.counter("loss", 1 / (step + 1), category="train")
    for layer, ((op, kernel), (start, end)) in enumerate(zip(LAYERS, times)):
        gpu.add_layer(trace, layer, op, kernel, start, end)
    # A counter with two series, at a given time.
    trace.add_counter("memory", times[-1][1], {"allocated": (step + 1) << 20, "reserved": 8 << 20})


def train(folder):
    """One rank: a process of its own. Its number comes from RANK and WORLD_SIZE in the environment."""
    rank = int(os.environ["RANK"])
    with tptrace.Trace("trainer", journal=folder / f"rank{rank}.journal") as trace:
        tptrace.set_current_trace(trace)
        trace.set_thread_name(threading.get_native_id(), "trainer")
        batches = queue.Queue(maxsize=1)
        loader = threading.Thread(target=load, args=(trace, batches), name="loader")
        saver = threading.Thread(target=write_checkpoint, args=(trace,), name="saver")
        loader.start()
        gpu = Gpu()
        for step in range(STEPS):
            # HTA and TensorBoard know steps by this name. tptrace.Profiler makes such spans by itself.
            with tptrace.span(f"ProfilerStep#{step}", step=step):
                batch = batches.get()
                trace.record_flow("end", "batch", batch, category="dataloader")
                train_step(trace, gpu, step, killed=rank == 1 and step == STEPS - 1)
                if step == 1:
                    trace.record_async("begin", "checkpoint", 1, category="io")
                    saver.start()
                if step == 2:
                    saver.join()
        loader.join()

        counts = trace.counts()
        dropped = counts.dropped + counts.record_dropped
        print(f"rank {rank}: {counts.ops} ops, {counts.gpu_activities} GPU activities, {dropped} dropped")
        trace.write(folder / "rank0.json.gz")  # gzip by its name
        trace.write(folder / "rank0.pt.trace.json.gz", format="torch")
        trace.write(folder / "rank0.pftrace")  # Perfetto's by its name
    # The trace was written: the journal went with it.


def keep_the_last(folder):
    """A mebibyte for the last of many requests; written when one of them is too slow."""
    with tptrace.Trace(record_bytes=1 << 20, keep_recent=True) as trace:
        for number in range(REQUESTS):
            with trace.span("request", category="server", step=number):
                pass
        try:
            trace.write(folder / "no/such/folder/recent.json.gz")
        except FileNotFoundError as error:  # each failure is a tptrace.TptraceError, and the exception of Python's that fits
            # It says why and leaves the trace as it was: the program goes on.
            print(f"the last requests: {error}", file=sys.stderr)
            trace.write(folder / "recent.json.gz")


def main(folder):
    folder.mkdir(exist_ok=True)
    ended = []
    for rank in range(RANKS):
        environment = {**os.environ, "RANK": str(rank), "WORLD_SIZE": str(RANKS)}
        ended.append(subprocess.run([sys.executable, __file__, folder, "rank"], env=environment).returncode)
    if ended[0] != 0:
        sys.exit("rank 0 failed")

    recovered = folder / "rank1.pt.trace.json.gz"
    if ended[1] == -signal.SIGKILL:
        journal = folder / "rank1.journal"
        report = tptrace.recover(journal, recovered)  # the torch format by default
        print(f"rank 1: killed; {report.events} events recovered, {report.unfinished} of them unfinished spans")
        journal.unlink()

    # What is odd about the files comes as a tptrace.MergeWarning too.
    merged = tptrace.merge_traces([folder / "rank0.pt.trace.json.gz", recovered], folder / "merged.pt.trace.json.gz")
    print(f"merged: {merged.events} events{' on one clock' if merged.aligned else ''}")

    keep_the_last(folder)


if __name__ == "__main__":
    target = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "run")
    main(target) if len(sys.argv) < 3 else train(target)
