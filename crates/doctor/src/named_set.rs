//! Sets of members with names, by which the command line, texts and JSON call them.

/// Declares such a set, with the name beside each member.
macro_rules! named_set {
    ($(#[$about:meta])* $set:ident {
        $($(#[$about_member:meta])* $member:ident = $name:literal,)+
    }) => {
        $(#[$about])*
        pub enum $set {
            $($(#[$about_member])* $member,)+
        }

        impl $set {
            /// All of them.
            pub const ALL: [Self; [$($name),+].len()] = [$(Self::$member),+];

            /// Its name.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$member => $name,)+
                }
            }
        }

        impl std::fmt::Display for $set {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.name())
            }
        }

        impl std::str::FromStr for $set {
            type Err = String;

            fn from_str(name: &str) -> Result<Self, String> {
                let found = Self::ALL.into_iter().find(|one| one.name() == name);
                found.ok_or_else(|| $crate::named_set::names_to_write(&[$($name),+]))
            }
        }
    };
}

pub(crate) use named_set;

/// `write a, b or c`.
pub(crate) fn names_to_write(names: &[&str]) -> String {
    match names {
        [others @ .., last] => format!("write {} or {last}", others.join(", ")),
        [] => String::new(),
    }
}
