//! Gives the library the name under which programs link it.

fn main() {
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libpmi.so.0");
}
