//! How much of a bounded resource one holder may take: a dynamic threshold (Choudhury and Hahne, *Dynamic Queue Length
//! Thresholds for Shared-Memory Packet Switches*, 1998).

/// A holder may have so many times what is still free.
const TIMES_WHAT_IS_FREE: usize = 3;

/// Whether a holder that has `held` places may take another one while `free` places are left.
///
/// One holder alone gets three quarters of all places, two get three sevenths each. However many there are, something is
/// left for the next one as long as places outnumber holders.
#[must_use]
pub const fn has_share(held: usize, free: usize) -> bool {
    held < free.saturating_mul(TIMES_WHAT_IS_FREE)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each holder takes as much as it gets, one after the other.
    fn taken(places: usize, holders: usize) -> Vec<usize> {
        let (mut held, mut free) = (vec![0; holders], places);
        for holder in &mut held {
            while has_share(*holder, free) {
                *holder += 1;
                free -= 1;
            }
        }
        held
    }

    #[test]
    fn whoever_comes_first_leaves_something_for_others() {
        assert_eq!(taken(768, 1), [576]);
        assert_eq!(taken(768, 2), [576, 144]);
        assert_eq!(taken(4, 1), [3]);
        assert!(!has_share(0, 0) && has_share(0, 1) && !has_share(3, 1));
        assert!(taken(768, 4).iter().all(|held| *held > 0));
    }
}
