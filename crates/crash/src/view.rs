//! A state as a sparse file; another state is shown by writing only the differences.

use std::collections::{BTreeSet, HashMap};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use drivebay_units::SECTOR_BYTES;

use crate::model::{Cut, Lost};
use crate::recording::{CrashError, PAGE_BYTES, PAGE_SECTORS};
use crate::states::{State, States};

/// Most pages per write.
const RUN_PAGES: usize = 256;

/// A file that shows one state at a time.
pub struct View {
    path: PathBuf,
    file: File,
    /// Hash of each page of the file that is not zeros.
    content: HashMap<u64, u128>,
    /// Cut of the shown state, unless sectors without data hold garbage.
    at: Option<Cut>,
    /// True if the file has the content that this struct stores.
    is_known: bool,
}

impl View {
    /// Creates a view in a new file that shows no state yet.
    ///
    /// # Errors
    /// The file exists, or cannot be created.
    pub fn create(path: &Path) -> Result<View, CrashError> {
        let file = File::options().read(true).write(true).create_new(true).open(path);
        let file = file.map_err(|why| CrashError::file(path, why))?;
        Ok(View { path: path.to_owned(), file, content: HashMap::new(), at: None, is_known: false })
    }

    /// Resets the file to an empty drive; required after another program has written to it.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn clear(&mut self, states: &States) -> Result<(), CrashError> {
        let bytes = states.recording().header.sectors.next_multiple_of(PAGE_SECTORS) * SECTOR_BYTES;
        (self.content, self.at, self.is_known) = (HashMap::new(), None, false);
        let emptied = self.file.set_len(0).and_then(|()| self.file.set_len(bytes));
        emptied.map_err(|why| CrashError::file(&self.path, why))
    }

    /// Shows a state; returns the number of written pages. The file must still contain the state
    /// shown before.
    ///
    /// # Errors
    /// There is no such state, or a file cannot be read or written.
    pub fn show(&mut self, states: &States, state: &State) -> Result<usize, CrashError> {
        if !self.is_known {
            self.clear(states)?;
        }
        let (cut, lost) = states.resolve(state)?;
        let model = &states.model;
        let mut pages = BTreeSet::new();
        match self.at.filter(|_| !lost.is_unwritten()) {
            None => pages.extend(model.pages.keys().chain(model.recording.base.keys())),
            Some(before) => {
                let units = before.units.0.min(cut.units.0)..before.units.1.max(cut.units.1);
                let effects = units.flat_map(|unit| model.effects_of(unit));
                pages.extend(effects.map(|effect| effect.page));
            }
        }
        // Between two states the content is undefined: after an error the file is rebuilt.
        self.is_known = false;
        let written = self.write(states, &cut, &pages, &lost);
        let written = written.map_err(|why| CrashError::file(&self.path, why))?;
        self.at = Some(cut).filter(|_| !lost.is_unwritten());
        self.is_known = true;
        Ok(written)
    }

    fn write(
        &mut self,
        states: &States,
        cut: &Cut,
        pages: &BTreeSet<u64>,
        lost: &Lost,
    ) -> io::Result<usize> {
        let (model, mut written) = (&states.model, 0);
        let (mut first, mut run) = (0, Vec::with_capacity(RUN_PAGES * PAGE_BYTES));
        for &page in pages {
            let new = model.content(page, cut.event, lost)?;
            if self.content.get(&page).copied().unwrap_or(0) == new {
                continue;
            }
            self.content.insert(page, new);
            let next = first + (run.len() / PAGE_BYTES) as u64;
            if next != page || run.len() == RUN_PAGES * PAGE_BYTES {
                self.file.write_all_at(&run, first * PAGE_BYTES as u64)?;
                (first, run) = (page, Vec::with_capacity(RUN_PAGES * PAGE_BYTES));
            }
            let mut bytes = [0; PAGE_BYTES];
            model.read(page, cut.event, lost, &mut bytes)?;
            run.extend(bytes);
            written += 1;
        }
        self.file.write_all_at(&run, first * PAGE_BYTES as u64)?;
        Ok(written)
    }
}
