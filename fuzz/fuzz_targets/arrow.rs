#![no_main]

// The Arrow libraries panic on damaged files, and the reader turns that into an error: only panics that escape it
// count.
libfuzzer_sys::fuzz_target!(
    init: std::panic::set_hook(Box::new(|_| {})),
    |bytes: &[u8]| evertally_testkit::fuzz::run("arrow", bytes)
);
