//! Random regular graphs that hang together.

use std::collections::BTreeSet;

/// Links between `nodes` nodes, `degree` at each, as pairs with the lower number first.
///
/// Stubs are paired at random; pairs that would double a link or lead back are exchanged with others.
#[must_use]
pub fn regular(nodes: usize, degree: usize, rng: &mut fastrand::Rng) -> Vec<(usize, usize)> {
    assert!(degree < nodes && (nodes * degree).is_multiple_of(2), "no regular graph has this shape");
    loop {
        let links = paired(nodes, degree, rng);
        let all: Vec<_> = (0..nodes).collect();
        if let Some(links) = links.filter(|links| parts(&all, links).len() == 1) {
            return links;
        }
    }
}

fn paired(nodes: usize, degree: usize, rng: &mut fastrand::Rng) -> Option<Vec<(usize, usize)>> {
    let mut stubs: Vec<_> = (0..nodes).flat_map(|node| std::iter::repeat_n(node, degree)).collect();
    rng.shuffle(&mut stubs);
    let mut links = BTreeSet::new();
    let mut left: Vec<_> = stubs.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect();
    for _ in 0..nodes * degree * 10 {
        let Some((a, b)) = left.pop() else { return Some(links.into_iter().collect()) };
        if a != b && links.insert((a.min(b), a.max(b))) {
            continue;
        }
        // No link of these two: some other link is taken apart, and its ends take part again.
        let other = links.iter().nth(rng.usize(..links.len().max(1))).copied();
        let (c, d) = other?;
        links.remove(&(c, d));
        left.extend([(a, c), (b, d)]);
    }
    None
}

/// The parts into which `nodes` fall, given the links.
#[must_use]
pub fn parts(nodes: &[usize], links: &[(usize, usize)]) -> Vec<Vec<usize>> {
    let most = nodes.iter().max().map_or(0, |node| node + 1);
    let mut neighbours = vec![Vec::new(); most];
    let mut left = vec![false; most];
    nodes.iter().for_each(|node| left[*node] = true);
    for (a, b) in links.iter().filter(|(a, b)| *a < most && *b < most) {
        neighbours[*a].push(*b);
        neighbours[*b].push(*a);
    }
    let mut found = Vec::new();
    for start in nodes {
        let mut part = Vec::new();
        let mut next = vec![*start];
        while let Some(node) = next.pop() {
            if std::mem::take(&mut left[node]) {
                part.push(node);
                next.extend(&neighbours[node]);
            }
        }
        found.extend((!part.is_empty()).then_some(part));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_node_has_its_degree_and_reaches_every_other() {
        for seed in 0..50 {
            let links = regular(20, 5, &mut fastrand::Rng::with_seed(seed));
            let degree = |node| links.iter().filter(|(a, b)| *a == node || *b == node).count();
            assert!((0..20).all(|node| degree(node) == 5), "seed {seed}");
            assert_eq!(parts(&(0..20).collect::<Vec<_>>(), &links).len(), 1, "seed {seed}");
        }
    }

    #[test]
    fn parts_are_told_apart_by_the_links_that_are_left() {
        assert_eq!(parts(&[0, 1, 2, 3], &[(0, 1), (2, 3)]), [vec![0, 1], vec![2, 3]]);
        assert_eq!(parts(&[0, 3], &[(0, 1), (1, 3)]), [vec![0], vec![3]]);
    }
}
