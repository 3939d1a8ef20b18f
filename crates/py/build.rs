//! Links the module on macOS, where Python defines the symbols of its interface only when it loads the module. maturin
//! passes these arguments, too, and the linker accepts them twice; `cargo build` passes none.
//! (`pyo3_build_config::add_extension_module_link_args` prints the same.)

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    if std::env::var("CARGO_CFG_TARGET_VENDOR").is_ok_and(|vendor| vendor == "apple") {
        println!("cargo:rustc-cdylib-link-arg=-undefined");
        println!("cargo:rustc-cdylib-link-arg=dynamic_lookup");
    }
}
