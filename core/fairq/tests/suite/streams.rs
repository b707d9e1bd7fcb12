//! The shares of streams, beside a plain list of the streams that are open.

use fairq::{StreamLimit, StreamLimits, StreamOwner, StreamShares};
use proptest::prelude::*;

type Owner = StreamOwner<u8, u8>;

#[derive(Clone, Debug)]
enum Step {
    Open(Owner),
    /// Ends the open stream with this number, counted around.
    Close(usize),
    /// The server may have so many connections from now on.
    Resize(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let owner = (0_u8..5, prop::option::of(0_u8..4)).prop_map(|(tenant, address)| Owner { tenant, address });
    let step = prop_oneof![
        6 => owner.prop_map(Step::Open),
        3 => any::<usize>().prop_map(Step::Close),
        1 => (1_usize..40).prop_map(Step::Resize),
    ];
    prop::collection::vec(step, 1..200)
}

/// What the rule says, read off the list.
fn judged(open: &[Owner], owner: &Owner, connections: usize) -> Result<(), StreamLimit> {
    let count = |is_one: &dyn Fn(&&Owner) -> bool| open.iter().filter(is_one).count();
    let free = (connections / 2).max(1).saturating_sub(open.len());
    if free == 0 {
        Err(StreamLimit::All)
    } else if count(&|known| known.tenant == owner.tenant) >= (free / 2).max(1) {
        Err(StreamLimit::Tenant)
    } else if owner.address.is_some() && count(&|known| *known == owner) >= (free / 4).max(1) {
        Err(StreamLimit::Address)
    } else {
        Ok(())
    }
}

proptest! {
    #[test]
    fn shares_are_those_that_a_list_of_all_streams_gives(steps in steps()) {
        let (mut shares, mut open, mut connections) = (StreamShares::default(), Vec::new(), 16);
        for step in steps {
            let limits = StreamLimits::of(connections);
            match step {
                Step::Open(owner) => {
                    let expected = judged(&open, &owner, connections);
                    prop_assert_eq!(shares.check(&owner, limits), expected);
                    prop_assert_eq!(shares.open_one(&owner, limits), expected);
                    if expected.is_ok() {
                        open.push(owner);
                    }
                }
                Step::Close(_) if open.is_empty() => {}
                Step::Close(number) => {
                    let closed = open.swap_remove(number % open.len());
                    shares.close_one(&closed);
                }
                Step::Resize(to) => connections = to,
            }
            prop_assert_eq!(shares.open(), open.len());
        }
    }

    #[test]
    fn whoever_has_no_stream_gets_one_while_few_tenants_have_any(
        // Six tenants can take ten streams and leave none.
        connections in 22_usize..2_000,
        others in prop::collection::vec(0_u8..6, 0..3_000),
    ) {
        let (mut shares, limits) = (StreamShares::<u8, u8>::default(), StreamLimits::of(connections));
        for tenant in others {
            let _ = shares.open_one(&StreamOwner { tenant, address: None }, limits);
        }
        prop_assert_eq!(shares.open_one(&StreamOwner { tenant: 9, address: None }, limits), Ok(()));
    }
}
