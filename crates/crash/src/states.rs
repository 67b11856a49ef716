//! Enumeration of the states that power cuts could leave: equal ones are merged, and each has a
//! name from which it can be recreated.
//!
//! A name is the number of the cut and the kind of loss: `12:prefix:3`, of the commands that are
//! volatile at cut 12 the first three are present; `12:missing:4`, all except number 4;
//! `12:only:4`; `12:torn:4:2`, those before number 4 and two units of it; `12:choice:7`, by number;
//! `12:random:99`, by seed; `12:lost:40,41`, all except these units of the recording. A suffix is
//! damage to a present unit: `12:prefix:3+garbage:40`, also `sheared` and `unreadable`;
//! `+unwritten:0` is garbage in sectors without data.

use std::collections::{HashMap, HashSet};
use std::fmt::{self, Display};
use std::io;
use std::path::Path;
use std::str::FromStr;

use drivebay_units::Rng;
use serde::Serialize;

use crate::choices::Choices;
use crate::model::{Cut, Damage, Lost, Model, weight};
use crate::recording::{CrashError, NEVER, Recording};
use crate::rules::{Kind, Rules, Standard};

/// Random draws per requested state of a cut in a later pass.
const TRIES: usize = 2;
/// Passes over the cuts; later ones distribute the states that earlier ones have left.
const PASSES: usize = 3;

/// Kind of a loss.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Recipe {
    Prefix(u32),
    Missing(u32),
    Only(u32),
    Torn(u32, u32),
    Choice(u64),
    Random(u64),
    Lost(Vec<u32>),
}

/// A state, identified by its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    cut: u32,
    recipe: Recipe,
    damage: Option<Damage>,
}

impl Display for State {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{}:", self.cut)?;
        match &self.recipe {
            Recipe::Prefix(count) => write!(to, "prefix:{count}"),
            Recipe::Missing(command) => write!(to, "missing:{command}"),
            Recipe::Only(command) => write!(to, "only:{command}"),
            Recipe::Torn(command, units) => write!(to, "torn:{command}:{units}"),
            Recipe::Choice(number) => write!(to, "choice:{number}"),
            Recipe::Random(seed) => write!(to, "random:{seed}"),
            Recipe::Lost(units) => {
                let units: Vec<String> = units.iter().map(u32::to_string).collect();
                write!(to, "lost:{}", units.join(","))
            }
        }?;
        self.damage.map_or(Ok(()), |Damage { kind, unit }| write!(to, "+{}:{unit}", kind.name()))
    }
}

impl FromStr for State {
    type Err = CrashError;

    fn from_str(text: &str) -> Result<State, CrashError> {
        let read = || {
            let mut parts = text.splitn(2, '+');
            let (cut, rest) = parts.next()?.split_once(':')?;
            let (kind, value) = rest.split_once(':')?;
            let mut damage = None;
            if let Some(suffix) = parts.next() {
                let (name, unit) = suffix.split_once(':')?;
                damage = Some(Damage { kind: Kind::from_name(name)?, unit: unit.parse().ok()? });
            }
            let recipe = match kind {
                "prefix" => Recipe::Prefix(value.parse().ok()?),
                "missing" => Recipe::Missing(value.parse().ok()?),
                "only" => Recipe::Only(value.parse().ok()?),
                "torn" => {
                    let (command, units) = value.split_once(':')?;
                    Recipe::Torn(command.parse().ok()?, units.parse().ok()?)
                }
                "choice" => Recipe::Choice(value.parse().ok()?),
                "random" => Recipe::Random(value.parse().ok()?),
                "lost" => {
                    let units = value.split(',').filter(|unit| !unit.is_empty());
                    Recipe::Lost(units.map(|unit| unit.parse().ok()).collect::<Option<_>>()?)
                }
                _ => return None,
            };
            Some(State { cut: cut.parse().ok()?, recipe, damage })
        };
        read().ok_or_else(|| CrashError::NoState(text.to_owned()))
    }
}

/// Number of states, and of enumerated ones.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Coverage {
    /// Points in time at which the set of possible states is largest: see `model.rs`.
    pub cuts: usize,
    /// Cuts with enumerated states.
    pub cuts_visited: usize,
    /// Cuts whose states were all enumerated.
    pub cuts_exhausted: usize,
    /// Binary logarithm of the choices of all cuts together; equal states count more than once.
    pub choices_log2: f64,
    /// Distinct enumerated states.
    pub states: usize,
    /// Most volatile units at a cut.
    pub volatile_max: usize,
    /// Enumerated states with a damaged part.
    pub damaged: usize,
}

/// States of a recording.
pub struct States {
    pub(crate) model: Model,
}

impl States {
    /// Creates the states of a recording; with `after`, cuts begin at the first mark with this
    /// text.
    ///
    /// # Errors
    /// The recording has no rules and none were given, or there is no such mark.
    pub fn new(
        recording: Recording,
        rules: Option<Rules>,
        after: Option<&str>,
    ) -> Result<States, CrashError> {
        let refused = |what: String, hint: &str| Err(CrashError::Refused(what, hint.to_owned()));
        if recording.header.requests_only {
            return refused("the recording has no data".into(), "drivebay crash record");
        }
        let Some(rules) = rules.or(recording.header.rules) else {
            return refused("the recording has no drive's rules".into(), "--drive DRIVE");
        };
        if let Some(text) = after.filter(|text| !recording.marks().contains(text)) {
            let what = format!("there is no mark {text}");
            return refused(what, "drivebay crash show FILE lists them");
        }
        Ok(States { model: Model::new(recording, rules, after) })
    }

    /// The recording.
    #[must_use]
    pub fn recording(&self) -> &Recording {
        &self.model.recording
    }

    /// The rules that apply.
    #[must_use]
    pub fn rules(&self) -> &Rules {
        &self.model.rules
    }

    /// Returns distinct states, at most `most`, in the order of their cuts, and their coverage.
    ///
    /// # Errors
    /// The recording cannot be read.
    pub fn enumerate(&self, most: usize, seed: u64) -> Result<(Vec<State>, Coverage), CrashError> {
        self.enumerated(most, seed).map_err(|why| CrashError::file(Path::new("the recording"), why))
    }

    fn enumerated(&self, most: usize, seed: u64) -> io::Result<(Vec<State>, Coverage)> {
        let cuts = &self.model.cuts;
        let mut coverage = Coverage { cuts: cuts.len(), ..Coverage::default() };
        let mut distinct = Distinct { states: Vec::new(), known: HashSet::new(), most };
        let rng = Rng::new(seed);
        // If there are more cuts than states, cuts are selected evenly.
        let mut open: Vec<u32> = match cuts.len() > most {
            true => (0..most).map(|n| (n * cuts.len() / most) as u32).collect(),
            false => (0..cuts.len() as u32).collect(),
        };
        coverage.cuts_visited = open.len();
        let mut durable = Durable::new(&self.model)?;
        for &cut in cuts {
            durable.move_to(&cut)?;
            coverage.choices_log2 = log2_sum(coverage.choices_log2, durable.log2.max(0.0));
            coverage.volatile_max = coverage.volatile_max.max(durable.units);
        }
        for pass in 0..PASSES {
            let mut durable = Durable::new(&self.model)?;
            let mut still_open = Vec::new();
            for (done, &number) in open.iter().enumerate() {
                let quota = distinct.left().div_ceil(open.len() - done);
                let cut = cuts[number as usize];
                durable.move_to(&cut)?;
                let choices = Choices::new(&self.model, cut)?;
                let mut rng = rng.fork(&format!("{pass} {number}"));
                let mut add = |recipe: Recipe, damage| {
                    let state = State { cut: number, recipe, damage };
                    let hash = choices.hash(&self.lost_by(&choices, &state))?;
                    distinct.add(state, durable.hash.wrapping_add(hash), cut.mark);
                    io::Result::Ok(distinct.states.len())
                };
                if pass == 0 {
                    let mut damaged = self.damaged(&choices, &cut);
                    let room = quota.saturating_sub(damaged.len()) as u64;
                    let recipes = if let Some(count) = choices.count().filter(|&n| n <= room) {
                        coverage.cuts_exhausted += 1;
                        (0..count).map(Recipe::Choice).collect()
                    } else {
                        still_open.push(number);
                        sample(&mut damaged, quota / 2, 0, &mut rng);
                        preferred(&choices, quota - damaged.len(), &mut rng)
                    };
                    for (recipe, damage) in damaged {
                        add(recipe, Some(damage))?;
                    }
                    for recipe in recipes {
                        add(recipe, None)?;
                    }
                    continue;
                }
                still_open.push(number);
                let mut tries = TRIES * quota;
                let until = add(Recipe::Prefix(0), None)? + quota;
                while tries > 0 && add(Recipe::Random(rng.next_u64()), None)? < until {
                    tries -= 1;
                }
            }
            open = still_open;
            if distinct.left() == 0 || open.is_empty() {
                break;
            }
        }
        let mut states = distinct.states;
        states.sort_by_key(|state| state.cut);
        coverage.states = states.len();
        coverage.damaged = states.iter().filter(|state| state.damage.is_some()).count();
        Ok((states, coverage))
    }

    /// Returns every damage at a cut: with all other units present, and with none after the damaged
    /// command.
    fn damaged(&self, choices: &Choices<'_>, cut: &Cut) -> Vec<(Recipe, Damage)> {
        let mut damages = Vec::new();
        if matches!(self.model.rules.standard, Some(Standard::Nvme | Standard::Ata)) {
            damages.push((0, Damage { kind: Kind::Unwritten, unit: 0 }));
        }
        for unit in self.model.volatile(cut) {
            let kinds = self.model.kinds(unit).iter();
            damages.extend(kinds.map(|&kind| (choices.place(unit) + 1, Damage { kind, unit })));
        }
        let both = |(prefix, damage)| {
            [(Recipe::Prefix(prefix), damage), (Recipe::Lost(Vec::new()), damage)]
        };
        damages.into_iter().flat_map(both).collect()
    }

    fn lost_by(&self, choices: &Choices<'_>, state: &State) -> Lost {
        let position = |unit: u32| choices.place(unit);
        let lost = match &state.recipe {
            &Recipe::Prefix(count) => choices.all_but(|unit| position(unit) < count),
            &Recipe::Missing(command) => choices.all_but(|unit| position(unit) != command),
            &Recipe::Only(command) => choices.all_but(|unit| position(unit) == command),
            &Recipe::Torn(command, units) => choices.all_but(|unit| match position(unit) {
                at if at == command => {
                    let all = &choices.commands[command as usize];
                    all.iter().position(|&other| other == unit) < Some(units as usize)
                }
                at => at < command,
            }),
            &Recipe::Choice(number) => choices.numbered(number),
            &Recipe::Random(seed) => choices.random(seed),
            Recipe::Lost(units) => choices.all_but(|unit| units.binary_search(&unit).is_err()),
        };
        Lost { damage: state.damage, ..lost }
    }

    /// Returns the cut of a state, and its loss.
    pub(crate) fn resolve(&self, state: &State) -> Result<(Cut, Lost), CrashError> {
        let none = || CrashError::NoState(state.to_string());
        let &cut = self.model.cuts.get(state.cut as usize).ok_or_else(none)?;
        let choices = Choices::new(&self.model, cut)
            .map_err(|why| CrashError::file(Path::new("the recording"), why))?;
        let within = |command: u32| (command as usize) < choices.commands.len();
        let is_there = match &state.recipe {
            Recipe::Missing(command) | Recipe::Only(command) | Recipe::Torn(command, _) => {
                within(*command)
            }
            Recipe::Choice(number) => choices.count().is_none_or(|count| *number < count),
            Recipe::Lost(units) => units.is_sorted(),
            Recipe::Prefix(_) | Recipe::Random(_) => true,
        };
        let is_possible =
            |damage| self.damaged(&choices, &cut).iter().any(|&(_, known)| known == damage);
        let is_there = is_there && state.damage.is_none_or(is_possible);
        is_there.then(|| (cut, self.lost_by(&choices, state))).ok_or_else(none)
    }

    /// Returns the state of the last cut in which nothing is lost; `None` without any command.
    #[must_use]
    pub fn last(&self) -> Option<State> {
        let cut = self.model.cuts.len().checked_sub(1)? as u32;
        Some(State { cut, recipe: Recipe::Lost(Vec::new()), damage: None })
    }

    /// Returns the last mark before a state's cut.
    #[must_use]
    pub fn mark_of(&self, state: &State) -> Option<&str> {
        let mark = self.model.cuts.get(state.cut as usize)?.mark.checked_sub(1)?;
        Some(self.model.recording.marks[mark as usize].1.as_str())
    }

    /// Returns the lost units of a state, each with its command.
    ///
    /// # Errors
    /// There is no such state.
    pub fn lost_units(&self, state: &State) -> Result<Vec<(u32, u32)>, CrashError> {
        let (_, lost) = self.resolve(state)?;
        Ok(lost.units().map(|unit| (unit, self.model.units[unit as usize].command)).collect())
    }

    /// Returns the state of the same cut in which these units are lost; units hidden below present
    /// ones do not count as lost.
    ///
    /// # Errors
    /// There is no such state.
    pub fn with_lost(&self, state: &State, mut units: Vec<u32>) -> Result<State, CrashError> {
        units.sort_unstable();
        let (_, lost) = self.resolve(&State { recipe: Recipe::Lost(units), ..state.clone() })?;
        Ok(State { recipe: Recipe::Lost(lost.units().collect()), ..state.clone() })
    }
}

/// Returns at most `most` losses that find most errors: a prefix of the commands, all commands
/// except one, one command torn, and one command alone.
fn preferred(choices: &Choices<'_>, most: usize, rng: &mut Rng) -> Vec<Recipe> {
    let count = choices.commands.len() as u32;
    let mut recipes = vec![Recipe::Prefix(0)];
    recipes.extend((1..=count).map(Recipe::Prefix));
    recipes.extend((0..count).map(Recipe::Missing));
    for (command, units) in choices.commands.iter().enumerate() {
        recipes.extend((1..units.len()).map(|n| Recipe::Torn(command as u32, n as u32)));
    }
    recipes.extend((0..count).map(Recipe::Only));
    // The loss of all units is kept, unless only one state is requested.
    sample(&mut recipes, most, usize::from(most > 1), rng);
    recipes
}

/// Keeps the first `kept` items of a longer list and draws the others, `most` in all.
fn sample<T>(list: &mut Vec<T>, most: usize, kept: usize, rng: &mut Rng) {
    if list.len() > most {
        for at in kept..most {
            let other = at + rng.below((list.len() - at) as u64) as usize;
            list.swap(at, other);
        }
        list.truncate(most);
    }
}

/// States found so far, each once.
struct Distinct {
    states: Vec<State>,
    known: HashSet<(u128, u32)>,
    most: usize,
}

impl Distinct {
    fn left(&self) -> usize {
        self.most - self.states.len()
    }

    fn add(&mut self, state: State, hash: u128, mark: u32) {
        if self.left() > 0 && self.known.insert((hash, mark)) {
            self.states.push(state);
        }
    }
}

/// Durable content at a moving cut: its hash, and the number of volatile units.
struct Durable<'m> {
    model: &'m Model,
    hash: u128,
    content: HashMap<u64, u128>,
    /// Units by the event that makes them durable; number of those that are durable, and of those
    /// submitted.
    order: Vec<u32>,
    durable: usize,
    submitted: u32,
    units: usize,
    /// Volatile units by page, and the binary logarithm of the choices at the cut.
    versions: HashMap<u64, u32>,
    log2: f64,
}

impl<'m> Durable<'m> {
    fn new(model: &'m Model) -> io::Result<Durable<'m>> {
        let mut order: Vec<u32> = (0..model.units.len() as u32).collect();
        order.retain(|&unit| model.units[unit as usize].durable != NEVER);
        order.sort_by_key(|&unit| model.units[unit as usize].durable);
        let mut hash = 0u128;
        let mut content = HashMap::new();
        for (&page, &block) in &model.recording.base {
            let content_hash = model.recording.hash(block);
            hash = hash.wrapping_add(weight(page, content_hash));
            content.insert(page, content_hash);
        }
        let (versions, log2) = (HashMap::new(), 0.0);
        Ok(Durable {
            model,
            hash,
            content,
            order,
            durable: 0,
            submitted: 0,
            units: 0,
            versions,
            log2,
        })
    }

    fn move_to(&mut self, cut: &Cut) -> io::Result<()> {
        let (model, all) = (self.model, Lost::all(cut));
        for unit in self.submitted..cut.units.1 {
            self.units += 1;
            self.count(unit, 1);
        }
        self.submitted = cut.units.1;
        while let Some(&unit) = self.order.get(self.durable)
            && model.units[unit as usize].durable <= cut.event
        {
            self.durable += 1;
            self.units -= 1;
            self.count(unit, -1);
            for effect in model.effects_of(unit) {
                let page = effect.page;
                let new = model.content(page, cut.event, &all)?;
                let old = self.content.insert(page, new).unwrap_or(0);
                self.hash =
                    self.hash.wrapping_sub(weight(page, old)).wrapping_add(weight(page, new));
            }
        }
        Ok(())
    }

    /// Adds or removes a unit; it counts on its first page.
    fn count(&mut self, unit: u32, by: i32) {
        let page = self.model.effects_of(unit)[0].page;
        let versions = self.versions.entry(page).or_insert(0);
        self.log2 -= f64::from(*versions + 1).log2();
        *versions = versions.saturating_add_signed(by);
        self.log2 += f64::from(*versions + 1).log2();
    }
}

/// Logarithm of the sum of two numbers given by their logarithms; 0 as the first one stands for
/// zero.
fn log2_sum(sum: f64, more: f64) -> f64 {
    if sum == 0.0 {
        return more;
    }
    let (low, high) = if sum < more { (sum, more) } else { (more, sum) };
    high + (1.0 + (low - high).exp2()).log2()
}
