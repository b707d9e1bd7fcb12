//! Water-filling in whole slots.

use std::collections::BTreeMap;

/// How many slots a tenant could use now at one gateway: its running and its waiting requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Demand {
    /// Tells tenants apart; the same number at every gateway.
    pub tenant: u64,
    /// What the tenant counts against others; at least 1.
    pub weight: u32,
    /// The slots that it could use.
    pub slots: u32,
}

/// How many of so many slots each gateway should have, in the order in which their demands are given. They add up to
/// `slots`, unless there is no gateway.
#[must_use]
pub fn share_out(slots: u32, gateways: &[&[Demand]]) -> Vec<u32> {
    let Ok(count) = u32::try_from(gateways.len()) else { return Vec::new() };
    if count == 0 {
        return Vec::new();
    }
    let mut shares = vec![u32::from(slots >= count); gateways.len()];
    let mut free = slots - shares.iter().sum::<u32>();
    for (tenant, granted) in by_tenant(free, gateways) {
        free -= granted;
        let wanted: Vec<u64> = gateways.iter().map(|demands| wanted_by(demands, tenant)).collect();
        for (share, part) in shares.iter_mut().zip(proportional(granted, &wanted)) {
            *share += part;
        }
    }
    let even = vec![1; gateways.len()];
    for (share, part) in shares.iter_mut().zip(proportional(free, &even)) {
        *share += part;
    }
    shares
}

/// The slots of each tenant, all gateways together.
fn by_tenant(slots: u32, gateways: &[&[Demand]]) -> BTreeMap<u64, u32> {
    let mut tenants: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
    for demand in gateways.iter().copied().flatten() {
        let (wanted, weight) = tenants.entry(demand.tenant).or_default();
        *wanted += u64::from(demand.slots);
        *weight = (*weight).max(u64::from(demand.weight.max(1)));
    }
    // The tenants that are satisfied first come first: those with the least demand for their weight.
    let mut order: Vec<_> =
        tenants.iter().map(|(tenant, (wanted, weight))| (*tenant, *wanted, *weight)).collect();
    order.sort_by(|(a, a_wanted, a_weight), (b, b_wanted, b_weight)| {
        let (left, right) =
            (u128::from(*a_wanted) * u128::from(*b_weight), u128::from(*b_wanted) * u128::from(*a_weight));
        left.cmp(&right).then(a.cmp(b))
    });
    let (mut left, mut weights) = (u64::from(slots), order.iter().map(|(_, _, weight)| weight).sum::<u64>());
    let mut granted = BTreeMap::new();
    for (index, (tenant, wanted, weight)) in order.iter().enumerate() {
        // What it would get if all that are left shared by weight.
        let is_satisfied =
            u128::from(*wanted) * u128::from(weights) <= u128::from(left) * u128::from(*weight);
        if !is_satisfied {
            let rest = &order[index..];
            let by_weight: Vec<u64> = rest.iter().map(|(_, _, weight)| *weight).collect();
            let parts = proportional(u32::try_from(left).unwrap_or(u32::MAX), &by_weight);
            granted.extend(
                rest.iter().zip(parts).map(|((tenant, wanted, _), part)| (*tenant, part.min(small(*wanted)))),
            );
            break;
        }
        granted.insert(*tenant, small(*wanted));
        left -= wanted;
        weights -= weight;
    }
    granted
}

fn wanted_by(demands: &[Demand], tenant: u64) -> u64 {
    demands.iter().filter(|demand| demand.tenant == tenant).map(|demand| u64::from(demand.slots)).sum()
}

/// Divides `total` in proportion to `parts`, in whole numbers: the remainders go to the largest fractions, and of equal ones
/// to the first. Nothing is given where `parts` add up to nothing.
fn proportional(total: u32, parts: &[u64]) -> Vec<u32> {
    let sum: u128 = parts.iter().map(|part| u128::from(*part)).sum();
    if sum == 0 {
        return vec![0; parts.len()];
    }
    let exact = |part: &u64| u128::from(*part) * u128::from(total);
    let mut shares: Vec<u32> = parts.iter().map(|part| small_wide(exact(part) / sum)).collect();
    let mut by_fraction: Vec<usize> = (0..parts.len()).collect();
    by_fraction.sort_by_key(|index| std::cmp::Reverse(exact(&parts[*index]) % sum));
    let rest = total - shares.iter().sum::<u32>();
    for index in by_fraction.into_iter().take(rest as usize) {
        shares[index] += 1;
    }
    shares
}

fn small(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

fn small_wide(number: u128) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}
