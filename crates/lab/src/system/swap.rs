//! Swap on a compressed device in memory (Documentation/admin-guide/blockdev/zram.rst).

use std::ffi::CString;
use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use super::{UndoStep, file_error, write_system_file, write_when_free};
use crate::memory::PAGE_BYTES;
use crate::os_result::os_result;

/// Size of the device that is swapped to, bytes. Only its compressed contents take memory, not this.
const SWAP_BYTES: u64 = 512 << 20;

/// Makes a new compressed device in memory, and turns swap on on it.
pub(super) fn turn_zram_swap_on(undo: &mut Vec<UndoStep>) -> io::Result<()> {
    let control = Path::new("/sys/class/zram-control/hot_add");
    let number = fs::read_to_string(control).map_err(|err| {
        io::Error::new(
            err.kind(),
            format!(
                "no swap, and no zram to make some: 'modprobe zram' brings it where the kernel has it ({}: {err})",
                control.display()
            ),
        )
    })?;
    let number: u32 = number.trim().parse().map_err(io::Error::other)?;
    undo.push(UndoStep::RemoveZram(number));
    write_system_file(
        Path::new(&format!("/sys/block/zram{number}/disksize")),
        &SWAP_BYTES.to_string(),
    )?;
    let device = PathBuf::from(format!("/dev/zram{number}"));
    let open = OpenOptions::new().write(true).open(&device);
    let file = open.map_err(|err| file_error("open", &device, &err))?;
    file.write_all_at(&swap_header(SWAP_BYTES), 0)
        .map_err(|err| file_error("write to", &device, &err))?;
    file.sync_all()
        .map_err(|err| file_error("write to", &device, &err))?;
    drop(file);
    let path = c_path(&device)?;
    // SAFETY: a path that ends in 0.
    os_result(unsafe { libc::swapon(path.as_ptr(), 0) })
        .map_err(|err| file_error("turn swap on on", &device, &err))?;
    undo.push(UndoStep::SwapOff(device));
    Ok(())
}

/// The first page of a swap device (include/linux/swap.h: union swap_header): version 1, the number of the last
/// page, and the magic word at the end of the page.
fn swap_header(bytes: u64) -> Vec<u8> {
    let mut page = vec![0; PAGE_BYTES];
    let pages = u32::try_from(bytes / PAGE_BYTES as u64).unwrap_or(u32::MAX);
    page[1024..1028].copy_from_slice(&1_u32.to_ne_bytes());
    page[1028..1032].copy_from_slice(&(pages - 1).to_ne_bytes());
    page[PAGE_BYTES - 10..].copy_from_slice(b"SWAPSPACE2");
    page
}

/// Turns swap off on a device.
pub(super) fn turn_swap_off(device: &Path) -> io::Result<()> {
    let path = c_path(device)?;
    // SAFETY: a path that ends in 0.
    os_result(unsafe { libc::swapoff(path.as_ptr()) })
        .map_err(|err| file_error("turn swap off on", device, &err))
}

/// The file that resets a device to a new one.
pub(super) fn reset_file(number: u32) -> PathBuf {
    PathBuf::from(format!("/sys/block/zram{number}/reset"))
}

/// The file that removes the device whose number is written to it.
pub(super) const HOT_REMOVE_FILE: &str = "/sys/class/zram-control/hot_remove";

/// Removes the device.
pub(super) fn remove_zram(number: u32) -> io::Result<()> {
    write_when_free(&reset_file(number), "1")?;
    write_when_free(Path::new(HOT_REMOVE_FILE), &number.to_string())
}

fn c_path(path: &Path) -> io::Result<CString> {
    CString::new(path.as_os_str().as_encoded_bytes()).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that the header has its three words where the kernel looks for them.
    #[test]
    fn header_is_where_the_kernel_looks() {
        let page = swap_header(64 << 20);
        assert_eq!(page.len(), 4096);
        assert_eq!(&page[4086..], b"SWAPSPACE2");
        assert_eq!(page[1024], 1);
        assert_eq!(
            u32::from_ne_bytes(page[1028..1032].try_into().unwrap()),
            16383
        );
    }
}
