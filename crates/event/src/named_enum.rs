//! Enums whose members have names, by which files, the command line, texts and JSON call them.

use std::fmt;

/// Declares an enum with the name beside each member, so that the member, what is printed and what is read can't drift apart.
///
/// It gives `ALL`, `name()`, `Display` (which keeps to a width) and `FromStr`, whose error is [`UnknownName`]. Derives and documentation
/// are the caller's. Behind the enum's name may stand:
///
/// - `with serde`: where the caller derives `Serialize` or `Deserialize`, JSON has the same names;
/// - `documented as "a cause"`: the documentation of members is also data, `describe()`, and the error calls the set by this noun. JSON
///   has the names, and one that is unknown there gives the same error.
///
/// ```
/// quell_event::named_enum! {
///     /// Where it goes.
///     #[derive(Clone, Copy, Debug, PartialEq, Eq)]
///     pub enum Direction {
///         /// To where the sun rises.
///         East = "east",
///         /// To where it sets.
///         West = "west",
///     }
/// }
/// assert_eq!("east".parse(), Ok(Direction::East));
/// assert_eq!(Direction::West.to_string(), "west");
/// assert_eq!("north".parse::<Direction>().unwrap_err().to_string(), "write east or west");
/// ```
#[macro_export]
macro_rules! named_enum {
    (
        $(#[$about:meta])*
        $vis:vis enum $set:ident documented as $noun:literal {
            $($(#[doc = $doc:literal])+ $member:ident = $name:literal,)+
        }
    ) => {
        $crate::named_enum! {
            $(#[$about])*
            $vis enum $set is $noun {
                $($(#[doc = $doc])+ $member = $name,)+
            }
        }

        impl $set {
            /// The documentation of the member: one or two sentences.
            #[must_use]
            $vis fn describe(self) -> &'static str {
                match self {
                    $(Self::$member => concat!($($doc, "\n",)+),)+
                }
            }
        }

        impl ::serde::Serialize for $set {
            fn serialize<S: ::serde::Serializer>(&self, to: S) -> ::std::result::Result<S::Ok, S::Error> {
                to.serialize_str(self.name())
            }
        }

        // A derived one would say all names of the set in its error, which may be some dozens.
        impl<'de> ::serde::Deserialize<'de> for $set {
            fn deserialize<D: ::serde::Deserializer<'de>>(from: D) -> ::std::result::Result<Self, D::Error> {
                let name = <String as ::serde::Deserialize>::deserialize(from)?;
                name.parse().map_err(<D::Error as ::serde::de::Error>::custom)
            }
        }
    };

    (
        $(#[$about:meta])*
        $vis:vis enum $set:ident with serde {
            $($(#[$about_member:meta])* $member:ident = $name:literal,)+
        }
    ) => {
        $crate::named_enum! {
            $(#[$about])*
            $vis enum $set {
                $($(#[$about_member])* #[serde(rename = $name)] $member = $name,)+
            }
        }
    };

    (
        $(#[$about:meta])*
        $vis:vis enum $set:ident $(is $noun:literal)? {
            $($(#[$about_member:meta])* $member:ident = $name:literal,)+
        }
    ) => {
        $(#[$about])*
        $vis enum $set {
            $($(#[$about_member])* $member,)+
        }

        impl $set {
            /// Every member, in the order of the declaration.
            $vis const ALL: [Self; [$($name),+].len()] = [$(Self::$member),+];

            /// The name, which stays the same in all versions.
            #[must_use]
            $vis fn name(self) -> &'static str {
                match self {
                    $(Self::$member => $name,)+
                }
            }
        }

        impl ::std::fmt::Display for $set {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                f.pad(self.name())
            }
        }

        impl ::std::str::FromStr for $set {
            type Err = $crate::UnknownName;

            fn from_str(name: &str) -> ::std::result::Result<Self, Self::Err> {
                let found = Self::ALL.into_iter().find(|member| member.name() == name);
                found.ok_or_else(|| $crate::UnknownName {
                    written: name.to_owned(),
                    noun: $crate::named_enum!(@noun $($noun)?),
                    names: &[$($name),+],
                })
            }
        }
    };

    (@noun) => { None };
    (@noun $noun:literal) => { Some($noun) };
}

/// A name that no member of an enum has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownName {
    /// The name that was written.
    pub written: String,
    /// The noun that the set is called by, with its article, where its names are too many to be listed.
    pub noun: Option<&'static str>,
    /// The names that could have been written.
    pub names: &'static [&'static str],
}

/// Of an option clap repeats what was written; the error has to say only what could be.
impl fmt::Display for UnknownName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.noun, self.names) {
            (Some(noun), _) => write!(f, "'{}' is not {noun}", self.written),
            (None, [others @ .., last]) if !others.is_empty() => {
                write!(f, "write {} or {last}", others.join(", "))
            }
            (None, names) => write!(f, "write {}", names.join("")),
        }
    }
}

impl std::error::Error for UnknownName {}

#[cfg(test)]
mod tests {
    use serde::{Deserialize, Serialize};

    crate::named_enum! {
        /// Some colours.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
        enum Colour with serde {
            /// As blood.
            DarkRed = "dark-red",
            /// As the sky.
            #[serde(alias = "azure")]
            Blue = "blue",
            /// As grass.
            Green = "green",
        }
    }

    crate::named_enum! {
        /// A set of one.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        enum Alone {
            /// It has no other.
            One = "one",
        }
    }

    /// Check that texts and JSON have the same names, both ways, and that attributes of a member stay.
    #[test]
    fn names_are_read_back() {
        for colour in Colour::ALL {
            assert_eq!(colour.name().parse(), Ok(colour));
            let json = serde_json::to_string(&colour).unwrap();
            assert_eq!(json, format!("\"{colour}\""));
            assert_eq!(serde_json::from_str::<Colour>(&json).unwrap(), colour);
        }
        assert_eq!(
            serde_json::from_str::<Colour>("\"azure\"").unwrap(),
            Colour::Blue
        );
        assert_eq!(format!("{:>6}|", Colour::Blue), "  blue|");
    }

    /// Check that the error lists what could be written, also where that is one name.
    #[test]
    fn names_are_listed() {
        let err = "mauve".parse::<Colour>().unwrap_err();
        assert_eq!(err.to_string(), "write dark-red, blue or green");
        assert_eq!(err.written, "mauve");
        assert_eq!("two".parse::<Alone>().unwrap_err().to_string(), "write one");
    }
}
