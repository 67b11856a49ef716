//! The media that stores the data, with its firmware: flash with a translation layer, or media
//! written in place.

use drivebay_units::{Nanos, Rng};

use crate::firmware::backend::BackEnd;
use crate::firmware::in_place::InPlaceMedia;
use crate::firmware::page_mapped::PageMappedMedia;
use crate::firmware::path::Path;
use crate::io::{DeviceError, Io};
use crate::persist::persist_variant;
use crate::physics::thermal::Work;
use crate::profile::Spec;

/// The drive's media.
pub enum Media {
    /// Page-mapped flash: dies, map, write buffer, garbage collection.
    PageMapped(Box<PageMappedMedia>),
    /// Cells that are written where the data lies.
    InPlace(Box<InPlaceMedia>),
}

persist_variant!(Media: PageMapped, InPlace);

impl Media {
    /// Fresh media; `memory`: media of a drive whose tables are used where they fit.
    ///
    /// # Errors
    /// [`DeviceError::Memory`].
    pub fn new(spec: &Spec, rng: &Rng, memory: Option<Media>) -> Result<Media, DeviceError> {
        Ok(match (&spec.in_place, memory) {
            (Some(media), _) => Media::InPlace(Box::new(InPlaceMedia::new(spec, media))),
            (None, Some(Media::PageMapped(old))) => {
                Media::PageMapped(Box::new(PageMappedMedia::new(spec, rng, Some(*old))?))
            }
            (None, _) => Media::PageMapped(Box::new(PageMappedMedia::new(spec, rng, None)?)),
        })
    }

    /// Page-mapped flash, if it is that.
    #[inline(always)]
    pub fn page_mapped(&self) -> Option<&PageMappedMedia> {
        match self {
            Media::PageMapped(flash) => Some(flash),
            Media::InPlace(_) => None,
        }
    }

    /// Result of `ask` for the flash's back end; the default on other media.
    pub fn of_back_end<T: Default>(&self, ask: impl Fn(&BackEnd) -> T) -> T {
        self.page_mapped().map_or_else(T::default, |flash| ask(&flash.backend))
    }

    /// Page-mapped flash, if it is that, to change.
    #[inline(always)]
    pub fn page_mapped_mut(&mut self) -> Option<&mut PageMappedMedia> {
        match self {
            Media::PageMapped(flash) => Some(flash),
            Media::InPlace(_) => None,
        }
    }

    /// Time of the newest submission, or the end of the last idle time.
    #[inline(always)]
    pub fn now(&self) -> Nanos {
        match self {
            Media::PageMapped(flash) => flash.backend.path.now(),
            Media::InPlace(media) => media.now,
        }
    }

    /// Moves the time on: no channel will be asked for an earlier one.
    #[inline(always)]
    pub fn advance(&mut self, now: Nanos) {
        match self {
            Media::PageMapped(flash) => flash.backend.path.advance(now),
            Media::InPlace(media) => media.now = now,
        }
    }

    /// Serves a command that reaches the flash core at `from`; returns when it is done, and whether
    /// data could not be read.
    ///
    /// # Errors
    /// [`DeviceError::ReadOnly`], no page has changed then; [`DeviceError::NoSpace`];
    /// [`DeviceError::Policy`].
    #[inline(always)]
    pub fn serve(
        &mut self,
        from: Nanos,
        io: Io,
        path: &mut Path,
    ) -> Result<(Nanos, bool), DeviceError> {
        match self {
            Media::PageMapped(flash) => flash.serve(from, io, path),
            Media::InPlace(media) => Ok((media.serve(from, io, path), false)),
        }
    }

    /// Operations so far that take energy.
    pub fn work(&self) -> Work {
        match self {
            Media::PageMapped(flash) => flash.work(),
            Media::InPlace(media) => media.work(),
        }
    }

    /// Pieces of 4 KiB that the host wrote, whole or in part.
    pub fn host_4k(&self) -> u64 {
        match self {
            Media::PageMapped(flash) => flash.host_4k,
            Media::InPlace(media) => media.host_4k,
        }
    }

    /// Mean program/erase cycles, or times written, for the health log.
    pub fn cycles(&self) -> f64 {
        match self {
            Media::PageMapped(flash) => flash.cycles(),
            Media::InPlace(media) => media.cycles(),
        }
    }
}
