//! Which of several streams count towards the total of one privacy unit.
//!
//! Budgets add up, except over consecutive streams of one declaration: one unit has data in a
//! [limited number](evertally_declare::chain) of these, and only the streams with its data cost it anything. So as many
//! of them count as can have its data. This needs equal costs: the sum over any such choice of streams is then the
//! same. If the costs differ, all streams count, which is never below the truth.

use evertally::privacy::composition::Expense;

/// A stream among those whose costs are added up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Link<'a> {
    /// The public id of its key.
    pub(crate) key: &'a str,
    /// Its name.
    pub(crate) stream: &'a str,
    /// The stream that it continues, under the same key.
    pub(crate) follows: Option<&'a str>,
    /// The largest number of these consecutive streams in which one unit can have data.
    pub(crate) max_streams: u32,
    /// Its cost.
    pub(crate) cost: Expense,
}

/// For each stream, whether it counts.
pub(crate) fn counted(links: &[Link<'_>]) -> Vec<bool> {
    (0..links.len()).map(|place| counts(links, place)).collect()
}

fn counts(links: &[Link<'_>], place: usize) -> bool {
    let chain = chain(links, place);
    let (mut counted, mut last) = (0, true);
    for (number, link) in chain.iter().enumerate() {
        let is_alike = chain[..number].iter().all(|before| before.cost == link.cost);
        last = !is_alike || counted < link.max_streams;
        counted += u32::from(last);
    }
    last
}

/// The stream at a place, after those that it continues, from the first.
fn chain<'l, 'a>(links: &'l [Link<'a>], place: usize) -> Vec<&'l Link<'a>> {
    let mut chain = vec![&links[place]];
    while let Some(name) = chain[chain.len() - 1].follows
        && let Some(before) = links.iter().find(|link| link.key == links[place].key && link.stream == name)
        && chain.len() <= links.len()
    {
        chain.push(before);
    }
    chain.reverse();
    chain
}

#[cfg(test)]
mod tests {
    use super::*;
    use evertally::privacy::{Budget, Rho};

    fn link<'a>(stream: &'a str, follows: Option<&'a str>, max_streams: u32, rho: f64) -> Link<'a> {
        let cost = Expense::from(Budget::Zcdp(Rho::new(rho).unwrap()));
        Link { key: "k", stream, follows, max_streams, cost }
    }

    #[test]
    fn as_many_streams_count_as_can_have_data_of_one_unit() {
        let three = |limits: [u32; 3]| {
            let [a, b, c] = limits;
            // In the order of names, which is not that of the streams.
            counted(&[link("x #10", Some("x #2"), c, 0.5), link("x", None, a, 0.5), link("x #2", Some("x"), b, 0.5)])
        };
        assert_eq!(three([1, 1, 1]), [false, true, false]);
        assert_eq!(three([2, 2, 2]), [false, true, true]);
        assert_eq!(three([u32::MAX; 3]), [true; 3]);
        // The end of the second stream is the first that divides a period: the second and the third can share one.
        assert_eq!(three([1, 1, 2]), [true, true, false]);
    }

    #[test]
    fn all_others_count() {
        let other_key = Link { key: "other", ..link("x #2", Some("x"), 1, 0.5) };
        let others = [link("x", None, 1, 0.5), link("y", None, 1, 0.5), other_key, link("z #2", Some("z"), 1, 0.5)];
        assert_eq!(counted(&others), [true; 4]);
        assert_eq!(counted(&[link("x", None, 1, 0.5), link("x #2", Some("x"), 1, 0.4)]), [true; 2]);
        // A damaged record with a circle ends, too.
        assert_eq!(counted(&[link("x", Some("y"), 1, 0.5), link("y", Some("x"), 1, 0.5)]).len(), 2);
    }
}
