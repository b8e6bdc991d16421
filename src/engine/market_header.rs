//! Which column of a market file is which, from its names.
//!
//! Verified: the aliases, unnamed index columns, adjusted closes, duplicates and missing columns. Names are compared
//! by their letters and digits in lower case, so `<OPEN>`, ` Open ` and `open` are one. Not attempted: guessing from
//! a column's contents or position.

/// What was found, what was expected, what to do.
pub(super) struct Refusal {
    pub found: String,
    pub expected: String,
    pub advice: String,
}

/// The column or columns that hold a bar's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TimeColumns {
    /// one column
    One(usize),
    /// a date and a time of day, to be joined by a space
    DateAndClock(usize, usize),
}

/// Columns of a file by position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Columns {
    pub time: TimeColumns,
    /// open, high, low, close
    pub prices: [usize; 4],
    pub volume: Option<usize>,
    /// names as the file has them
    pub names: Vec<String>,
    /// what was ignored or is missing, in words
    pub notes: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Moment,
    Date,
    Clock,
    Index,
    Price(usize),
    Volume,
    TickVolume,
    Adjusted,
    Other,
}

const PRICES: [&str; 4] = ["open", "high", "low", "close"];
const EXPECTED: &str =
    "a header with the columns time (or date and time), open, high, low, close and, if there is one, volume";

/// Letters and digits of a name, in lower case.
fn key(name: &str) -> String {
    name.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

fn role(name: &str) -> Role {
    match key(name).as_str() {
        "datetime" | "timestamp" | "dt" | "ts" | "gmttime" | "utctime" | "localtime" | "utc" | "datetimeutc"
        | "dategmt" | "timeutc" | "timegmt" | "opentime" | "unix" | "unixtime" | "unixtimestamp" | "epoch" => {
            Role::Moment
        }
        "date" | "day" => Role::Date,
        "time" => Role::Clock,
        "indexlevel0" => Role::Index, // pandas: an index without a name, in Parquet
        "open" | "o" | "openprice" => Role::Price(0),
        "high" | "h" | "highprice" => Role::Price(1),
        "low" | "l" | "lowprice" => Role::Price(2),
        "close" | "c" | "closeprice" => Role::Price(3),
        "volume" | "vol" | "v" | "realvolume" => Role::Volume,
        "tickvolume" | "tickvol" => Role::TickVolume,
        "adjclose" | "adjustedclose" | "adjcloseprice" | "closeadj" => Role::Adjusted,
        _ => Role::Other,
    }
}

/// Positions of a role among the columns' roles.
fn positions(roles: &[Role], wanted: Role) -> Vec<usize> {
    roles.iter().enumerate().filter(|(_, role)| **role == wanted).map(|(i, _)| i).collect()
}

fn refused<T>(found: String, advice: &str) -> Result<T, Refusal> {
    Err(Refusal { found, expected: EXPECTED.to_owned(), advice: advice.to_owned() })
}

/// Finds the columns by their names.
pub(super) fn columns(names: &[String]) -> Result<Columns, Refusal> {
    let roles: Vec<Role> = names.iter().map(|name| role(name)).collect();
    let known = roles.iter().any(|role| !matches!(role, Role::Other));
    if !known && names.iter().any(|name| name.starts_with(|c: char| c.is_ascii_digit())) {
        return refused(format!("no header but {}", list(names)), "put the columns' names on the first line");
    }
    let one = |wanted: Role| match positions(&roles, wanted)[..] {
        [] => Ok(None),
        [i] => Ok(Some(i)),
        [i, j, ..] => {
            refused(format!("two columns for one: {:?} and {:?}", names[i], names[j]), "rename or remove one")
        }
    };
    let mut prices = [0; 4];
    for (k, price) in PRICES.iter().enumerate() {
        match one(Role::Price(k))? {
            Some(i) => prices[k] = i,
            None => {
                return refused(format!("no column {price} among {}", list(names)), "rename the column that holds it");
            }
        }
    }
    let time = time(names, &roles)?;
    let volume = match one(Role::Volume)? {
        Some(i) => Some(i),
        None => one(Role::TickVolume)?,
    };
    Ok(Columns { notes: notes(names, &roles, time, volume), time, prices, volume, names: names.to_vec() })
}

fn time(names: &[String], roles: &[Role]) -> Result<TimeColumns, Refusal> {
    let of = |wanted| positions(roles, wanted);
    match (&of(Role::Moment)[..], &of(Role::Date)[..], &of(Role::Clock)[..], &of(Role::Index)[..]) {
        ([], &[date], &[clock], _) => Ok(TimeColumns::DateAndClock(date, clock)),
        (&[i], [], [], _) | ([], &[i], [], _) | ([], [], &[i], _) | ([], [], [], &[i]) => Ok(TimeColumns::One(i)),
        ([], [], [], _) => refused(format!("no column time among {}", list(names)), "rename the column that holds it"),
        (moments, dates, clocks, _) => {
            let all: Vec<&str> = [moments, dates, clocks].concat().iter().map(|i| names[*i].as_str()).collect();
            refused(format!("several columns for the time: {}", list(&all)), "keep one, or one `date` and one `time`")
        }
    }
}

fn notes(names: &[String], roles: &[Role], time: TimeColumns, volume: Option<usize>) -> Vec<String> {
    let mut notes = Vec::new();
    for (i, (name, role)) in names.iter().zip(roles).enumerate() {
        match role {
            Role::Other if name.is_empty() && i == 0 => notes.push("unnamed first column ignored: an index".to_owned()),
            Role::Other if name.is_empty() => notes.push(format!("unnamed column {} ignored", i + 1)),
            Role::Adjusted => {
                notes.push(format!("column {name:?} ignored: open, high, low and close are taken as they stand"))
            }
            Role::TickVolume if volume != Some(i) => notes.push(format!("column {name:?} ignored: there is a volume")),
            Role::Index if time != TimeColumns::One(i) => notes.push(format!("column {name:?} ignored: an index")),
            Role::Other => notes.push(format!("column {name:?} ignored")),
            Role::Moment if key(name) == "localtime" => notes.push(format!("column {name:?} is read as UTC")),
            _ => {}
        }
    }
    if volume.is_none() {
        notes.push("no volume: the volume features are +0".to_owned());
    }
    notes
}

/// Names in quotes, the first twelve.
fn list<S: AsRef<str>>(names: &[S]) -> String {
    let shown: Vec<String> = names.iter().take(12).map(|name| super::market_error::quoted(name.as_ref())).collect();
    let more = if names.len() > 12 { ", …" } else { "" };
    format!("{}{more}", shown.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(header: &str) -> Result<Columns, String> {
        let names: Vec<String> = header.split(',').map(|name| name.trim().to_owned()).collect();
        columns(&names).map_err(|r| format!("{}; {}", r.found, r.advice))
    }

    /// Would fail if an alias, a spelling or an order of columns were misread.
    #[test]
    fn names_and_aliases() {
        let found = read("<DATE>,<TIME>,<OPEN>,<HIGH>,<LOW>,<CLOSE>,<TICKVOL>,<VOL>,<SPREAD>").unwrap();
        assert_eq!((found.time, found.prices, found.volume), (TimeColumns::DateAndClock(0, 1), [2, 3, 4, 5], Some(7)));
        assert_eq!(found.notes, ["column \"<TICKVOL>\" ignored: there is a volume", "column \"<SPREAD>\" ignored"]);
        let found = read("c,l,h,o,Gmt Time,tick_volume").unwrap();
        assert_eq!((found.time, found.prices, found.volume), (TimeColumns::One(4), [3, 2, 1, 0], Some(5)));
        let found = read(",Local time,OPEN,HIGH,LOW,CLOSE").unwrap();
        assert_eq!(found.notes[0], "unnamed first column ignored: an index");
        assert_eq!(found.notes[1..], ["column \"Local time\" is read as UTC", "no volume: the volume features are +0"]);
    }

    /// Would fail if a column were guessed, or if one of two were silently taken.
    #[test]
    fn refused_headers() {
        let text = |header: &str| read(header).unwrap_err();
        assert!(text("time,open,high,low,volume").starts_with("no column close among \"time\""));
        assert!(text("open,high,low,close").starts_with("no column time among"));
        assert!(text("time,open,Open,high,low,close").starts_with("two columns for one: \"open\" and \"Open\""));
        assert!(text("time,open,high,low,close,vol,Volume").starts_with("two columns for one: \"vol\" and \"Volume\""));
        assert!(text("unix,date,open,high,low,close").starts_with("several columns for the time: \"unix\", \"date\""));
        assert!(text("2020-01-02,1,2,0.5,1.5,10").starts_with("no header but \"2020-01-02\""));
    }
}
