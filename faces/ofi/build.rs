//! Link arguments of the provider.

fn main() {
    // libfabric's destructor closes the object at exit. A thread's last instructions and its thread-local destructors may
    // still be in it then: it stays mapped.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
}
