//! Flexible Data Placement: which write streams a drive has.
//!
//! Source: NVMe base specification 2.1, Flexible Data Placement (TP4146): reclaim unit handles, initially and persistently
//! isolated. Left out: several reclaim groups, reclaim units that are not whole superblocks, a time limit of theirs.

use super::key::SpecError;
use super::schema::RawSpec;
use crate::superblock::Streams;

/// The streams of a drive with placement handles; none without. `splits`: the host's writes are split otherwise;
/// `background`: copies go on in the background and in rounds.
pub(super) fn check_placement(
    raw: &RawSpec,
    splits: bool,
    background: bool,
) -> Result<Option<Streams>, SpecError> {
    let Some(fdp) = &raw.fdp else { return Ok(None) };
    let handles = fdp.handles.value;
    let apart = fdp.isolation.value == "persistent";
    let cannot = [
        (
            raw.slc_cache.is_some(),
            "an SLC cache, which does not keep data apart",
            "leave out [slc_cache]",
        ),
        (
            splits,
            "writes split by lifespan or by a policy",
            "leave out gc.host_frontiers and gc.plugin",
        ),
        (
            apart && background,
            "gc.background_pages_per_s, whose rounds have one frontier",
            "use initial isolation",
        ),
    ];
    if let Some((_, beside, hint)) = cannot.into_iter().find(|(cannot, _, _)| *cannot) {
        let allowed = format!("left out beside {beside}");
        return Err(SpecError::out("fdp.handles", handles, allowed, hint));
    }
    Ok(Some(Streams::placed(handles as usize, apart)))
}
