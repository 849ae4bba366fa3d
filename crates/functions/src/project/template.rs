//! Names with parts that each message fills in: `done-{Id}`.

/// A text with places in braces.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Template(Vec<Part>);

#[derive(Clone, PartialEq, Eq, Debug)]
enum Part {
    Literal(String),
    /// What stands in braces.
    Place(String),
}

impl Template {
    pub(crate) fn read(text: &str) -> Result<Self, String> {
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('{') {
            let (place, behind) =
                after.split_once('}').ok_or_else(|| format!("'{text}': a '{{' is not closed."))?;
            if place.trim().is_empty() {
                return Err(format!("'{text}': there is nothing between '{{' and '}}'."));
            }
            if !before.is_empty() {
                parts.push(Part::Literal(before.to_owned()));
            }
            parts.push(Part::Place(place.trim().to_owned()));
            rest = behind;
        }
        if !rest.is_empty() {
            parts.push(Part::Literal(rest.to_owned()));
        }
        Ok(Self(parts))
    }

    /// The text, if there is nothing to fill in.
    pub(crate) fn fixed(&self) -> Option<&str> {
        match self.0.as_slice() {
            [] => Some(""),
            [Part::Literal(text)] => Some(text),
            _ => None,
        }
    }

    /// The text with every place filled in; else the place that has no value.
    pub(crate) fn fill(&self, value: impl Fn(&str) -> Option<String>) -> Result<String, String> {
        self.0.iter().try_fold(String::new(), |filled, part| match part {
            Part::Literal(text) => Ok(filled + text),
            Part::Place(name) => value(name).map(|value| filled + &value).ok_or_else(|| name.clone()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_filled_in_and_the_rest_stays() {
        let template = Template::read("a-{Id}-{ x }b").expect("the template is well formed");
        let value = |name: &str| (name != "gone").then(|| name.to_uppercase());
        assert_eq!(template.fill(value), Ok("a-ID-Xb".to_owned()));
        assert_eq!(template.fixed(), None);
        assert_eq!(Template::read("plain").expect("a plain name is a template").fixed(), Some("plain"));
        assert_eq!(
            Template::read("{gone}").expect("the template is well formed").fill(value),
            Err("gone".to_owned())
        );
        assert!(Template::read("a{b").is_err() && Template::read("a{}").is_err());
    }
}
