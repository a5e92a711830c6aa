//! The bytes of a page that matter, for log records that carry a whole page: all but the free
//! middle of a slotted page.

use super::fault::{FaultReason, PageFault};
use super::id::PageId;
use super::validate;
use super::{header, slots};

/// Returns the page without its free middle, in two parts. The second part is empty for pages that
/// are not slotted. Written one after the other they are an image that [`restore`] understands. To
/// make the parts small, compact the page first.
pub(crate) fn parts(page: &[u8]) -> [&[u8]; 2] {
    match header::kind(page) {
        Some(header::Kind::Leaf | header::Kind::Inner) => {
            let slots_end = header::BYTES + header::count(page) * slots::SLOT;
            [&page[..slots_end], &page[header::heap_start(page)..]]
        }
        Some(header::Kind::Overflow) => [&page[..header::BYTES + header::count(page)], &[]],
        _ => [page, &[]],
    }
}

/// Makes `page` the page from which `image` was taken; `image` is both parts of [`parts`], joined.
/// Sets every byte of `page`. Refuses an image that does not make a well-formed page `id`. After a
/// refusal `page` must not be used.
pub(crate) fn restore(page: &mut [u8], id: PageId, image: &[u8]) -> Result<(), PageFault> {
    let fault = |reason| PageFault { page: id, reason };
    if image.len() < header::BYTES || image.len() > page.len() {
        return Err(fault(FaultReason::Short(image.len())));
    }
    let front = match header::kind(image) {
        Some(header::Kind::Leaf | header::Kind::Inner) => header::BYTES + header::count(image) * slots::SLOT,
        _ => image.len(),
    };
    if front > image.len() {
        return Err(fault(FaultReason::Bounds));
    }
    let back = page.len() - (image.len() - front);
    page[..front].copy_from_slice(&image[..front]);
    page[front..back].fill(0);
    page[back..].copy_from_slice(&image[front..]);
    if header::page_id(page) != id {
        return Err(fault(FaultReason::Identity(header::page_id(page))));
    }
    if header::version(page) != header::VERSION {
        return Err(fault(FaultReason::Version(header::version(page))));
    }
    validate::check_structure(page)
}
