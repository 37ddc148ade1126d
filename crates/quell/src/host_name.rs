//! The name of this host.

/// This variable gives the host's name where the kernel's own is of no use: in a container that is the container's, and a
/// new one each time.
pub(crate) const HOST_NAME_VARIABLE: &str = "QUELL_HOST";

/// `QUELL_HOST`, or the kernel's name.
pub(crate) fn host_name() -> String {
    let told = std::env::var(HOST_NAME_VARIABLE)
        .ok()
        .filter(|name| !name.is_empty());
    told.unwrap_or_else(|| {
        let uname = rustix::system::uname();
        uname.nodename().to_string_lossy().into_owned()
    })
}
