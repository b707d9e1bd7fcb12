//! What was used in the present epoch, worked out from meters that only grow. Bookkeeping without I/O.
//!
//! A meter is read about once a second. What it grew by since the last reading belongs to the epoch that was open then,
//! so nothing is counted in two epochs, and a reading at the epoch's end draws the line exactly there. What is written
//! down is *cumulative* for this process and epoch: writing it twice changes nothing, and a write that failed is made
//! up for by the next.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    net::IpAddr,
    time::Duration,
};

use types::ActorId;

use crate::Windows;

/// Epochs that are kept while the disk refuses to write.
pub const MAX_PAGES: usize = 4;

/// One reading of a meter: whose, of what, and how much since the process began.
pub type Reading = (ActorId, &'static str, u64);

/// What is to be written down: the sums of one epoch so far, those that changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// The number of the epoch.
    pub epoch: u64,
    /// Whose, of what, and how much in this epoch since the process began; in the order of actors and metrics.
    pub units: Vec<(ActorId, &'static str, u64)>,
}

/// The usage of the present epoch, and of earlier ones that are not written down yet.
#[derive(Clone, Debug)]
pub struct Tally {
    windows: Windows,
    max_actors: usize,
    /// The last value of each meter.
    seen: BTreeMap<(ActorId, &'static str), u64>,
    /// The oldest first; the last is the present epoch's.
    pages: VecDeque<Open>,
    lost_pages: u64,
}

/// What the node has to do with usage that it booked by a clock that was wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Correction {
    /// The epoch that it was booked in.
    pub from: u64,
    /// The epoch that it belongs to; `None` if that cannot be known, because it was used in more than one.
    pub to: Option<u64>,
}

#[derive(Clone, Debug, Default)]
struct Open {
    epoch: u64,
    /// When it was opened, since 1970.
    since: Duration,
    /// Those who use something and have a name here.
    users: BTreeSet<ActorId>,
    /// Those who provide something and have a name here.
    providers: BTreeSet<ActorId>,
    units: BTreeMap<(ActorId, &'static str), u64>,
    dirty: BTreeSet<(ActorId, &'static str)>,
}

impl Tally {
    /// A tally from `unix` on, of at most `max_actors` users and as many providers in each epoch; the rest is booked as `other`. It begins in the epoch
    /// of `unix`, or in `last_epoch`, the latest that an earlier process wrote, if their clocks can be so far apart.
    #[must_use]
    pub fn new(windows: Windows, last_epoch: u64, unix: Duration, max_actors: usize) -> Self {
        let latest = windows.epoch_at(unix.saturating_add(windows.tolerance()));
        let present = windows.epoch_at(unix);
        let epoch = if last_epoch <= latest { present.max(last_epoch) } else { present };
        let pages = VecDeque::from([Open { epoch, since: unix, ..Open::default() }]);
        Self { windows, max_actors, seen: BTreeMap::new(), pages, lost_pages: 0 }
    }

    /// The present epoch. It only grows, unless [`Tally::correct`] says that the clock was wrong.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.pages.back().map_or(0, |page| page.epoch)
    }

    /// Epochs that were given up because the disk refused to write for too long.
    #[must_use]
    pub const fn lost_pages(&self) -> u64 {
        self.lost_pages
    }

    /// Takes the meters' readings at `unix`, and turns the page if the epoch is over.
    pub fn read(&mut self, readings: impl IntoIterator<Item = Reading>, unix: Duration) {
        let max_actors = self.max_actors;
        let page = self.pages.back_mut().expect("there is always a present epoch");
        for (actor, metric, total) in readings {
            let before = self.seen.insert((actor.clone(), metric), total).unwrap_or(0);
            // A meter may wrap, and so does the difference.
            let grown = total.wrapping_sub(before);
            if grown > 0 {
                page.add(actor, metric, grown, max_actors);
            }
        }
        let now = self.windows.epoch_at(unix);
        if now > self.epoch() {
            self.pages.push_back(Open { epoch: now, since: unix, ..Open::default() });
            self.pages.retain_mut(|page| page.epoch == now || !page.dirty.is_empty());
            if self.pages.len() > MAX_PAGES {
                self.pages.pop_front();
                self.lost_pages += 1;
            }
        }
    }

    /// The clock said `before`, and is known to be `after` now: what is open is what was used since it was opened, by the
    /// clock of now. If that is one epoch, it is open from now on; if not, what was open is given up and an empty page is
    /// opened. `None` if nothing changes, because the clock was off by no more than clocks may be.
    ///
    /// Everything must be written down.
    pub fn correct(&mut self, before: Duration, after: Duration) -> Option<Correction> {
        if before.abs_diff(after) <= self.windows.tolerance() {
            return None;
        }
        let present = self.windows.epoch_at(after);
        let page = self.pages.back_mut().expect("there is always a present epoch");
        let since = page.since.saturating_add(after).saturating_sub(before);
        let from = page.epoch;
        if self.windows.epoch_at(since) == present {
            (page.epoch, page.since) = (present, since);
            return (from != present).then_some(Correction { from, to: Some(present) });
        }
        let was_used = !page.units.is_empty();
        self.pages = VecDeque::from([Open { epoch: present, since: after, ..Open::default() }]);
        was_used.then_some(Correction { from, to: None })
    }

    /// What the present page has is kept elsewhere: it is counted again from here on.
    pub fn forget_page(&mut self) {
        let page = self.pages.back_mut().expect("there is always a present epoch");
        let Open { epoch, since, .. } = *page;
        *page = Open { epoch, since, ..Open::default() };
    }

    /// What changed and is not known to be written down, the oldest epoch first.
    #[must_use]
    pub fn unwritten(&self) -> Vec<Page> {
        self.pages.iter().filter(|page| !page.dirty.is_empty()).map(Open::changed).collect()
    }

    /// Everything that [`Tally::unwritten`] said is written down. To be called before the next reading.
    pub fn written(&mut self) {
        let present = self.epoch();
        self.pages.iter_mut().for_each(|page| page.dirty.clear());
        self.pages.retain(|page| page.epoch == present);
    }
}

impl Open {
    fn add(&mut self, actor: ActorId, metric: &'static str, grown: u64, max_actors: usize) {
        // A flood of names of those who use something must not hide who provides it, and is paid for it.
        let provides = metric.starts_with(ActorId::PROVIDED);
        let actors = if provides { &mut self.providers } else { &mut self.users };
        let named = !is_address(&actor)
            && (actors.contains(&actor) || actors.len() < max_actors && actors.insert(actor.clone()));
        let key = (if named { actor } else { ActorId::other() }, metric);
        let units = self.units.entry(key.clone()).or_default();
        *units = units.saturating_add(grown);
        self.dirty.insert(key);
    }

    fn changed(&self) -> Page {
        let of = |key: &(ActorId, &'static str)| (key.0.clone(), key.1, self.units[key]);
        Page { epoch: self.epoch, units: self.dirty.iter().map(of).collect() }
    }
}

/// Whether a name is an IP address, of whatever spelling: those must not leave the node.
fn is_address(actor: &ActorId) -> bool {
    let name = actor.as_str();
    let bare = name.strip_prefix("ip:").unwrap_or(name).trim_start_matches('[');
    let bare = bare.split(['/', ']', '%']).next().unwrap_or(bare);
    bare.parse::<IpAddr>().is_ok()
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn actor(name: &str) -> ActorId {
        ActorId::new(name).unwrap()
    }

    fn tally(max_actors: usize) -> Tally {
        let windows = Windows::new(Duration::from_secs(10), Duration::ZERO);
        Tally::new(windows, 0, Duration::from_secs(5), max_actors)
    }

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn units(page: &Page) -> Vec<(String, u64)> {
        page.units.iter().map(|(actor, metric, units)| (format!("{actor} {metric}"), *units)).collect()
    }

    #[test]
    fn what_is_written_down_is_cumulative_in_its_epoch() {
        let mut tally = tally(9);
        tally.read([(actor("a"), "provided.bytes", 5)], at(6));
        tally.written();
        tally.read([(actor("a"), "provided.bytes", 8), (actor("b"), "provided.bytes", 0)], at(7));
        let pages = tally.unwritten();
        assert_eq!(pages.len(), 1);
        assert_eq!(units(&pages[0]), [("a provided.bytes".to_owned(), 8)], "and nothing of who used nothing");
        tally.written();
        assert!(tally.unwritten().is_empty());
    }

    #[test]
    fn usage_up_to_the_reading_at_the_end_belongs_to_the_epoch_that_ends() {
        let mut tally = tally(9);
        tally.read([(actor("a"), "m", 5)], at(10));
        assert_eq!(tally.epoch(), 1);
        tally.read([(actor("a"), "m", 7)], at(11));
        let pages = tally.unwritten();
        assert_eq!(
            pages.iter().map(|page| (page.epoch, units(page)[0].1)).collect::<Vec<_>>(),
            [(0, 5), (1, 2)]
        );
    }

    #[test]
    fn the_epoch_does_not_go_back_with_the_clock() {
        let mut tally = tally(9);
        tally.read([], at(25));
        assert_eq!(tally.epoch(), 2);
        tally.read([(actor("a"), "m", 3)], at(4));
        assert_eq!((tally.epoch(), tally.unwritten()[0].epoch), (2, 2));
        let windows = Windows::new(at(10), Duration::ZERO);
        assert_eq!(
            Tally::new(windows, 1, at(9), 1).epoch(),
            1,
            "nor with a restart, by what clocks are apart"
        );
        assert_eq!(Tally::new(windows, 1, at(8), 1).epoch(), 0, "and no further");
    }

    #[test]
    fn usage_that_was_booked_by_a_wrong_clock_goes_to_the_epoch_that_it_belongs_to() {
        for (before, after, to) in [(at(8), at(18), 1), (at(108), at(38), 3)] {
            let windows = Windows::new(at(10), Duration::ZERO);
            let mut tally = Tally::new(windows, 0, before - at(2), 9);
            tally.read([(actor("a"), "m", 5)], before);
            tally.written();
            let from = windows.epoch_at(before);
            assert_eq!(tally.correct(before, after), Some(Correction { from, to: Some(to) }));
            tally.read([(actor("a"), "m", 6)], after);
            let page = &tally.unwritten()[0];
            assert_eq!((page.epoch, units(page)[0].1), (to, 6), "all of it, with what came since");
        }
    }

    #[test]
    fn usage_of_more_than_one_epoch_is_given_up_when_the_clock_was_wrong() {
        let mut tally = tally(9);
        tally.read([(actor("a"), "m", 5)], at(8));
        tally.written();
        assert_eq!(tally.correct(at(8), at(22)), Some(Correction { from: 0, to: None }), "from 19 to 22");
        tally.read([(actor("a"), "m", 7)], at(23));
        let page = &tally.unwritten()[0];
        assert_eq!((page.epoch, units(page)[0].1), (2, 2), "what came since is booked by the clock of now");
    }

    #[test]
    fn a_clock_that_is_off_by_what_clocks_may_be_moves_nothing() {
        let mut tally = Tally::new(Windows::new(at(10), at(4)), 0, at(11), 9);
        tally.read([(actor("a"), "m", 5)], at(12));
        tally.written();
        assert_eq!((tally.correct(at(12), at(8)), tally.epoch()), (None, 1));
        assert_eq!(tally.correct(at(12), at(7)), Some(Correction { from: 1, to: Some(0) }));
    }

    #[test]
    fn a_write_that_failed_is_made_up_for_by_the_next() {
        let mut tally = tally(9);
        tally.read([(actor("a"), "m", 1)], at(6));
        let first = tally.unwritten();
        tally.read([(actor("b"), "m", 2)], at(7));
        let both = tally.unwritten();
        assert_eq!((units(&first[0]).len(), units(&both[0]).len()), (1, 2));
    }

    #[test]
    fn while_the_disk_refuses_a_bounded_number_of_epochs_is_kept() {
        let mut tally = tally(9);
        for epoch in 0..8 {
            tally.read([(actor("a"), "m", epoch + 1)], at(epoch * 10 + 10));
        }
        assert_eq!((tally.unwritten().len(), tally.lost_pages()), (MAX_PAGES - 1, 5));
        assert!(tally.unwritten().iter().all(|page| units(page)[0].1 == 1));
    }

    #[test]
    fn actors_beyond_the_cap_and_addresses_are_booked_as_other() {
        let mut tally = tally(2);
        let names = ["a", "b", "c", "10.0.0.1", "[2001:db8::1]", "ip:2001:db8::/64", "10.1.0.0/16"];
        tally.read(names.map(|name| (actor(name), "m", 1)), at(6));
        let page = &tally.unwritten()[0];
        let expected = [("a m", 1), ("b m", 1), ("other m", 5)].map(|(key, n)| (key.to_owned(), n));
        assert_eq!(units(page), expected);
    }

    #[test]
    fn a_flood_of_names_does_not_hide_who_provides() {
        let mut tally = tally(3);
        let flood = (0..100).map(|number| (actor(&format!("a{number:03}")), "used.requests", 1));
        tally.read(flood.chain([(actor("node"), "provided.bytes", 7)]), at(6));
        let page = &tally.unwritten()[0];
        let booked = units(page);
        assert_eq!(booked.len(), 5, "{booked:?}");
        assert!(booked.contains(&("node provided.bytes".to_owned(), 7)), "{booked:?}");
        assert!(booked.contains(&("other used.requests".to_owned(), 97)), "{booked:?}");
    }

    #[test]
    fn a_meter_that_wraps_goes_on_counting() {
        let mut tally = tally(2);
        tally.read([(actor("a"), "m", u64::MAX)], at(10));
        tally.read([(actor("a"), "m", 4)], at(11));
        assert_eq!(units(&tally.unwritten()[1]), [("a m".to_owned(), 5)]);
    }
}
