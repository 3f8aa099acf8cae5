//! TensorPlay's numbers for element types, and the names that traces carry.

const NAMES: [&str; 22] = [
    "uint8",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint16",
    "uint32",
    "uint64",
    "float32",
    "float64",
    "float16",
    "bfloat16",
    "bool",
    "complex64",
    "complex128",
    "complex32",
    "bcomplex32",
    "undefined",
    "undefined",
    "qint8",
    "quint8",
    "qint32",
];

/// The name of TensorPlay's element type `code`; `"undefined"` for numbers that it does not use.
pub fn dtype_name(code: i64) -> &'static str {
    usize::try_from(code).ok().and_then(|code| NAMES.get(code)).copied().unwrap_or("undefined")
}

#[cfg(test)]
mod tests {
    use super::dtype_name;

    #[test]
    fn codes_have_their_names() {
        assert_eq!(dtype_name(0), "uint8");
        assert_eq!(dtype_name(8), "float32");
        assert_eq!(dtype_name(16), "bcomplex32");
        assert_eq!(dtype_name(17), "undefined");
        assert_eq!(dtype_name(19), "qint8");
        assert_eq!(dtype_name(21), "qint32");
        for odd in [-1, 18, 22, 255, i64::MAX, i64::MIN] {
            assert_eq!(dtype_name(odd), "undefined");
        }
    }
}
