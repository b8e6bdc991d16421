//! Many names in a few words that account for all of them, or one a line.

use std::collections::BTreeMap;

/// Most entries of the short form.
const ENTRIES: usize = 12;

/// How names that differ are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Names {
    /// grouped by their first parts
    Grouped,
    /// so many, one a line
    Top(usize),
    /// all, one a line
    All,
}

impl Names {
    /// How many of a list are told.
    pub fn of(self, list: usize, short: usize) -> usize {
        let most = match self {
            Names::Grouped => short,
            Names::Top(n) if n > short => n,
            Names::Top(_) => short,
            Names::All => list,
        };
        if most < list { most } else { list }
    }
}

/// Where a part of a name ends.
fn ends(name: &str) -> impl Iterator<Item = usize> + '_ {
    name.char_indices().filter(|(_, c)| ".:/".contains(*c)).map(|(i, c)| i + c.len_utf8())
}

/// Names that begin alike.
struct Group<'a> {
    /// what they begin with, or the whole name
    head: &'a str,
    names: Vec<&'a str>,
}

/// Names by their beginnings, one part longer than `head`, in the order of the first of each.
fn split<'a>(head: &str, names: &[&'a str]) -> Vec<Group<'a>> {
    let (mut groups, mut places) = (Vec::<Group<'a>>::new(), BTreeMap::new());
    for name in names {
        let end = ends(name).find(|end| *end > head.len()).unwrap_or(name.len());
        let place = *places.entry(&name[..end]).or_insert(groups.len());
        if place == groups.len() {
            groups.push(Group { head: &name[..end], names: Vec::new() });
        }
        groups[place].names.push(name);
    }
    groups
}

/// `q.trunk1.* (2), q.trunk2.bias, adam.* (40)`: every name counts in exactly one entry.
pub fn grouped(names: &[String]) -> String {
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut groups = split("", &names);
    // The largest group is split as long as all fit; one that cannot be split so stays.
    let mut kept = Vec::new();
    while let Some(at) =
        (0..groups.len()).filter(|i| !kept.contains(&groups[*i].head)).max_by_key(|i| groups[*i].names.len())
    {
        let parts = if groups[at].names.len() > 1 { split(groups[at].head, &groups[at].names) } else { Vec::new() };
        if parts.is_empty()
            || groups.len() - 1 + parts.len() > ENTRIES
            || parts.iter().any(|p| p.head == groups[at].head)
        {
            kept.push(groups[at].head);
        } else {
            groups.splice(at..=at, parts);
        }
    }
    let told = if groups.len() > ENTRIES { ENTRIES - 1 } else { groups.len() };
    let mut entries: Vec<String> = groups[..told].iter().map(entry).collect();
    let rest = groups[told..].iter().fold(0, |n, g| n + g.names.len());
    if rest > 0 {
        entries.push(format!("{rest} more"));
    }
    entries.join(", ")
}

fn entry(group: &Group<'_>) -> String {
    match group.names.as_slice() {
        [one] => (*one).to_owned(),
        many => format!("{}* ({})", group.head, many.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn owned(names: &[&str]) -> Vec<String> {
        names.iter().map(|n| (*n).to_owned()).collect()
    }

    /// Would fail if a few names were hidden in a group, or many not told by their beginnings.
    #[test]
    fn names_are_grouped_by_their_beginnings() {
        assert_eq!(grouped(&owned(&["a.x", "a.y", "b"])), "a.x, a.y, b");
        let mut many: Vec<String> = (0..40).map(|i| format!("adam.m.{i}")).collect();
        many.extend(owned(&["q.w", "q.b", "rng"]));
        assert_eq!(grouped(&many), "adam.m.* (40), q.w, q.b, rng");
        let flat: Vec<String> = (0..20).map(|i| format!("w{i}")).collect();
        assert_eq!(grouped(&flat), "w0, w1, w2, w3, w4, w5, w6, w7, w8, w9, w10, 9 more");
        let files = owned(&["out/a.npz:w", "out/a.npz:b", "out/b.npz:w"]);
        assert_eq!(grouped(&files), "out/a.npz:w, out/a.npz:b, out/b.npz:w");
        assert_eq!(grouped(&[]), "");
    }

    proptest! {
        /// Would fail if a name were lost, counted twice, or the summary grew.
        #[test]
        fn every_name_is_accounted_for(names in prop::collection::btree_set("[a-c]{1,2}(\\.[a-c]{1,2}){0,3}", 0..60)) {
            let names: Vec<String> = names.into_iter().collect();
            let text = grouped(&names);
            let entries: Vec<&str> = text.split(", ").filter(|e| !e.is_empty()).collect();
            let count = |e: &str| -> usize {
                let number = e.split_once('(').map_or_else(|| e.strip_suffix(" more"), |(_, n)| n.strip_suffix(')'));
                number.map_or(1, |n| n.parse().unwrap())
            };
            prop_assert!(entries.len() <= ENTRIES);
            prop_assert_eq!(entries.iter().fold(0, |n, e| n + count(e)), names.len());
        }
    }
}
