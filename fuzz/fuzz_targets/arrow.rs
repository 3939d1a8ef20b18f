#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| evertally_testkit::fuzz::run("arrow", bytes));
