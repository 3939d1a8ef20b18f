#![no_main]

// The Arrow libraries panic over damaged files, and the reader turns that into an error: only what escapes it counts.
libfuzzer_sys::fuzz_target!(
    init: std::panic::set_hook(Box::new(|_| {})),
    |bytes: &[u8]| evertally_testkit::fuzz::run("arrow", bytes)
);
