//! Shares of slots: what each tenant and each gateway gets.

use proptest::prelude::*;
use slotshare::{Demand, share_out};

const fn wants(tenant: u64, slots: u32) -> Demand {
    Demand { tenant, weight: 1, slots }
}

fn shares(slots: u32, gateways: &[Vec<Demand>]) -> Vec<u32> {
    share_out(slots, &gateways.iter().map(Vec::as_slice).collect::<Vec<_>>())
}

#[test]
fn slots_go_where_they_are_wanted() {
    let table = [
        ("nobody wants any: they are spread", 20, vec![vec![], vec![], vec![]], vec![7, 7, 6]),
        (
            "one wants all: each of the others keeps one",
            20,
            vec![vec![wants(1, 500)], vec![], vec![]],
            vec![18, 1, 1],
        ),
        (
            "as many tenants as gateways, all want all",
            21,
            vec![vec![wants(1, 99)], vec![wants(2, 99)], vec![wants(3, 99)]],
            vec![7, 7, 7],
        ),
        (
            "an elephant through two gateways against a victim at the third",
            20,
            vec![vec![wants(1, 200)], vec![wants(1, 200)], vec![wants(2, 6)]],
            vec![7, 6, 7],
        ),
        (
            "a tenant's slots follow its requests",
            23,
            vec![vec![wants(1, 30)], vec![wants(1, 10)], vec![]],
            vec![16, 6, 1],
        ),
        ("more gateways than slots", 2, vec![vec![wants(1, 1)], vec![], vec![wants(1, 1)]], vec![1, 0, 1]),
        ("no slots", 0, vec![vec![wants(1, 9)]], vec![0]),
        ("no gateways", 5, vec![], vec![]),
    ];
    for (what, slots, gateways, expected) in table {
        assert_eq!(shares(slots, &gateways), expected, "{what}");
    }
}

#[test]
fn weights_count_between_tenants_that_want_more_than_there_is() {
    let heavy = Demand { tenant: 1, weight: 3, slots: 100 };
    assert_eq!(shares(22, &[vec![heavy], vec![wants(2, 100)]]), [16, 6]);
    // One that wants less than its weight gives it leaves the rest.
    assert_eq!(shares(22, &[vec![Demand { slots: 4, ..heavy }], vec![wants(2, 100)]]), [5, 17]);
}

fn fleets() -> impl Strategy<Value = Vec<Vec<Demand>>> {
    let demand = (0..12_u64, 1..8_u32, 0..300_u32).prop_map(|(tenant, _, slots)| Demand {
        tenant,
        weight: 1 + u32::try_from(tenant).expect("small") % 4,
        slots,
    });
    prop::collection::vec(prop::collection::vec(demand, 0..8), 1..12)
}

proptest! {
    #[test]
    fn all_slots_are_given_out_and_no_more(slots in 0..500_u32, fleet in fleets()) {
        let shares = shares(slots, &fleet);
        prop_assert_eq!(shares.iter().sum::<u32>(), slots);
        prop_assert!(slots < u32::try_from(fleet.len()).expect("few") || shares.iter().all(|share| *share >= 1));
    }

    #[test]
    fn a_tenant_that_asks_for_more_takes_nothing_from_one_within_its_share(
        slots in 20..500_u32,
        fleet in fleets(),
        victim in 1..6_u32,
        flood in 1000..1_000_000_u32,
    ) {
        // The victim is alone at its gateway, and its demand is below the least share there can be: weight 1 of all.
        let weights: u32 = (0..12).map(|tenant| 1 + tenant % 4).sum::<u32>() + 1 + 4;
        let wanted = victim.min((slots - u32::try_from(fleet.len()).expect("few") - 2) / weights);
        let mut gateways = fleet;
        gateways.push(vec![wants(100, wanted)]);
        let at_victim = gateways.len() - 1;
        gateways.push(vec![Demand { tenant: 101, weight: 4, slots: flood }]);
        let shares = shares(slots, &gateways);
        prop_assert!(shares[at_victim] > wanted, "{} for {wanted}", shares[at_victim]);
    }
}
