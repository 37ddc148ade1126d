//! What this host is called.

/// Says so where the kernel's own name is another one: in a container that is the container's, and a new one each time.
pub(crate) const VARIABLE: &str = "QUELL_HOST";

/// `QUELL_HOST`, or the kernel's name.
pub(crate) fn host_name() -> String {
    let told = std::env::var(VARIABLE).ok().filter(|name| !name.is_empty());
    told.unwrap_or_else(|| {
        let uname = rustix::system::uname();
        uname.nodename().to_string_lossy().into_owned()
    })
}
