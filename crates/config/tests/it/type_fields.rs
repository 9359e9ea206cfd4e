//! The keys that a type accepts, found by deserializing it along one path after the other.
//!
//! A derived `Deserialize` passes the names of its fields to the deserializer. Types that read a map or any value do not, so
//! what is below them is not found.

use std::fmt;

use serde::{
    Deserialize, Deserializer,
    de::{DeserializeSeed, Error, MapAccess, SeqAccess, Visitor, value::StrDeserializer},
    forward_to_deserialize_any,
};

/// Returns the paths of all fields of a type and of the types of its fields. `*` stands for the keys of maps and the items of
/// arrays.
pub fn fields_of<T: for<'de> Deserialize<'de>>() -> Vec<Vec<String>> {
    let mut found = Vec::new();
    let mut open = vec![Vec::new()];
    while let Some(path) = open.pop() {
        for name in T::deserialize(PathFollower { path: &path }).err().map(|end| end.0).unwrap_or_default() {
            let below: Vec<String> = path.iter().cloned().chain([name]).collect();
            if below.last().is_some_and(|name| name != "*") {
                found.push(below.clone());
            }
            open.push(below);
        }
    }
    found
}

/// The names at the end of a path, as an error: nothing is ever deserialized.
#[derive(Debug)]
struct NamesFound(Vec<String>);

impl std::error::Error for NamesFound {}

impl fmt::Display for NamesFound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

impl Error for NamesFound {
    fn custom<T: fmt::Display>(_: T) -> Self {
        Self(Vec::new())
    }
}

struct PathFollower<'p> {
    path: &'p [String],
}

impl<'p> PathFollower<'p> {
    fn next(&self, names: &[&str]) -> Result<(&'p str, Self), NamesFound> {
        match self.path.split_first() {
            Some((first, path)) => Ok((first, Self { path })),
            None => Err(NamesFound(names.iter().map(|name| (*name).to_owned()).collect())),
        }
    }
}

impl<'de> Deserializer<'de> for PathFollower<'_> {
    type Error = NamesFound;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, NamesFound> {
        Err(NamesFound(Vec::new()))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, NamesFound> {
        let (key, below) = self.next(fields)?;
        visitor.visit_map(OneEntry { key: Some(key), below: Some(below) })
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, NamesFound> {
        let (key, below) = self.next(&["*"])?;
        visitor.visit_map(OneEntry { key: Some(key), below: Some(below) })
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, NamesFound> {
        let (_, below) = self.next(&["*"])?;
        visitor.visit_seq(OneEntry { key: None, below: Some(below) })
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, NamesFound> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, NamesFound> {
        visitor.visit_newtype_struct(self)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 u8 u16 u32 u64 f32 f64 char str string bytes byte_buf unit unit_struct tuple
        tuple_struct enum identifier ignored_any
    }
}

struct OneEntry<'p> {
    key: Option<&'p str>,
    below: Option<PathFollower<'p>>,
}

impl<'de> MapAccess<'de> for OneEntry<'_> {
    type Error = NamesFound;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, NamesFound> {
        self.key.take().map(|key| seed.deserialize(StrDeserializer::new(key))).transpose()
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, NamesFound> {
        seed.deserialize(self.below.take().unwrap())
    }
}

impl<'de> SeqAccess<'de> for OneEntry<'_> {
    type Error = NamesFound;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, NamesFound> {
        self.below.take().map(|below| seed.deserialize(below)).transpose()
    }
}
