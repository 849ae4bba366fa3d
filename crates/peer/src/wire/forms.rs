//! The macros that give a type its form, by a list of all its fields or variants.
//!
//! Types are taken apart without `..` and chosen without `_`: what is new in a type does not compile until it is
//! listed. In tests the same list says how to make up a value (`any`), so that no test forgets a field or a variant.

use super::{In, Wire, WireError};

/// Reads a field. An error of it names the type that the field is of.
#[inline]
pub(super) fn field<T: Wire>(from: &mut In<'_>, place: &'static str) -> Result<T, WireError> {
    T::get(from).map_err(|error| error.at(place))
}

/// The forms of structs: their fields, one after the other. What stands behind `;` is a field that is not sent, because
/// the sender's node alone acts on it, and the value that the receiver has instead.
macro_rules! records {
    ($($name:ident { $($field:ident),+ $(,)? $(; $kept:ident = $value:expr)? })+) => {
        $(
            impl $crate::wire::Wire for $name {
                #[inline]
                fn put(&self, out: &mut $crate::wire::Out) {
                    let Self { $($field),+ $(, $kept: _)? } = self;
                    $($crate::wire::Wire::put($field, out);)+
                }

                #[inline]
                fn get(from: &mut $crate::wire::In<'_>) -> Result<Self, $crate::wire::WireError> {
                    Ok(Self {
                        $($field: $crate::wire::forms::field(
                            from,
                            concat!(stringify!($name), ".", stringify!($field)),
                        )?,)+
                        $($kept: $value,)?
                    })
                }
            }

            #[cfg(test)]
            impl $crate::wire::any::Any for $name {
                fn any(chance: &mut $crate::wire::any::Chance) -> Self {
                    Self { $($field: $crate::wire::any::Any::any(chance),)+ $($kept: $value,)? }
                }
            }
        )+
    };
}

/// The forms of structs that wrap one value: that value.
macro_rules! wrappers {
    ($($name:ident)+) => {
        $(
            impl $crate::wire::Wire for $name {
                #[inline]
                fn put(&self, out: &mut $crate::wire::Out) {
                    let Self(value) = self;
                    $crate::wire::Wire::put(value, out);
                }

                #[inline]
                fn get(from: &mut $crate::wire::In<'_>) -> Result<Self, $crate::wire::WireError> {
                    $crate::wire::forms::field(from, stringify!($name)).map(Self)
                }
            }

            #[cfg(test)]
            impl $crate::wire::any::Any for $name {
                fn any(chance: &mut $crate::wire::any::Chance) -> Self {
                    Self($crate::wire::any::Any::any(chance))
                }
            }
        )+
    };
}

/// The forms of enums: a byte for the variant, then its fields. The byte of a variant stays, also when another one
/// goes.
macro_rules! choices {
    ($($name:ident {
        $($byte:literal => $variant:ident $(($($item:ident),+))? $({ $($field:ident),+ $(,)? })?,)+
    })+) => {
        $(
            impl $crate::wire::Wire for $name {
                #[inline]
                fn put(&self, out: &mut $crate::wire::Out) {
                    match self {
                        $(Self::$variant $(($($item),+))? $({ $($field),+ })? => {
                            out.byte($byte);
                            $($($crate::wire::Wire::put($item, out);)+)?
                            $($($crate::wire::Wire::put($field, out);)+)?
                        })+
                    }
                }

                #[inline]
                fn get(from: &mut $crate::wire::In<'_>) -> Result<Self, $crate::wire::WireError> {
                    match from.byte().map_err(|error| error.at(stringify!($name)))? {
                        $($byte => Ok(Self::$variant
                            $(($($crate::wire::forms::field(
                                from,
                                concat!(stringify!($name), "::", stringify!($variant), " ", stringify!($item)),
                            )?),+))?
                            $({ $($field: $crate::wire::forms::field(
                                from,
                                concat!(stringify!($name), "::", stringify!($variant), ".", stringify!($field)),
                            )?),+ })?
                        ),)+
                        byte => Err($crate::wire::WireError::new(
                            stringify!($name),
                            $crate::wire::Fault::UnknownChoice { byte },
                        )),
                    }
                }
            }

            #[cfg(test)]
            impl $crate::wire::any::Choice for $name {
                const EACH: &'static [$crate::wire::any::Variant<Self>] = &[
                    $((stringify!($variant), |_chance| Self::$variant
                        $(($($crate::wire::any::of(stringify!($item), _chance)),+))?
                        $({ $($field: $crate::wire::any::Any::any(_chance)),+ })?
                    ),)+
                ];
            }

            #[cfg(test)]
            impl $crate::wire::any::Any for $name {
                fn any(chance: &mut $crate::wire::any::Chance) -> Self {
                    chance.choose::<Self>()
                }
            }
        )+
    };
}

/// The forms of pairs and the like: their parts, one after the other.
macro_rules! tuples {
    ($(($($part:ident : $type:ty),+))+) => {
        $(
            impl $crate::wire::Wire for ($($type),+) {
                #[inline]
                fn put(&self, out: &mut $crate::wire::Out) {
                    let ($($part),+) = self;
                    $($crate::wire::Wire::put($part, out);)+
                }

                #[inline]
                fn get(from: &mut $crate::wire::In<'_>) -> Result<Self, $crate::wire::WireError> {
                    $(let $part = $crate::wire::forms::field(from, stringify!($type))?;)+
                    Ok(($($part),+))
                }
            }

            #[cfg(test)]
            impl $crate::wire::any::Any for ($($type),+) {
                fn any(chance: &mut $crate::wire::any::Chance) -> Self {
                    $(let $part = $crate::wire::any::Any::any(chance);)+
                    ($($part),+)
                }
            }
        )+
    };
}

pub(super) use {choices, records, tuples, wrappers};
