//! The wire names of variants, by serde's rules.

use syn::{Attribute, Expr, ExprLit, Lit, Meta, Token, Variant, punctuated::Punctuated};

/// The name with which a variant is written, and the other names under which it is read.
pub struct VariantNames {
    pub written: String,
    pub aliases: Vec<String>,
}

pub fn of_variant(variant: &Variant, rule: &str) -> syn::Result<VariantNames> {
    let metas = serde_metas(&variant.attrs)?;
    let renamed = metas.iter().find_map(|meta| string_value(meta, "rename"));
    Ok(VariantNames {
        written: renamed.unwrap_or_else(|| apply(rule, &variant.ident.to_string())),
        aliases: metas.iter().filter_map(|meta| string_value(meta, "alias")).collect(),
    })
}

/// Returns the string of `name = "string"`.
pub fn string_value(meta: &Meta, name: &str) -> Option<String> {
    let Meta::NameValue(pair) = meta else { return None };
    let Expr::Lit(ExprLit { lit: Lit::Str(value), .. }) = &pair.value else { return None };
    pair.path.is_ident(name).then(|| value.value())
}

fn serde_metas(attrs: &[Attribute]) -> syn::Result<Vec<Meta>> {
    let mut metas = Vec::new();
    for attr in attrs.iter().filter(|attr| attr.path().is_ident("serde")) {
        metas.extend(attr.parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated)?);
    }
    Ok(metas)
}

fn apply(rule: &str, pascal: &str) -> String {
    match rule {
        "camelCase" => {
            let mut letters = pascal.chars();
            letters.next().map(|first| first.to_ascii_lowercase()).into_iter().chain(letters).collect()
        }
        "snake_case" => separated(pascal, '_'),
        "kebab-case" => separated(pascal, '-'),
        "SCREAMING_SNAKE_CASE" => separated(pascal, '_').to_ascii_uppercase(),
        "lowercase" => pascal.to_ascii_lowercase(),
        other => panic!("#[wire] does not know the rule {other}"),
    }
}

fn separated(pascal: &str, separator: char) -> String {
    let mut name = String::with_capacity(pascal.len() + 4);
    for (at, letter) in pascal.char_indices() {
        if at > 0 && letter.is_ascii_uppercase() {
            name.push(separator);
        }
        name.push(letter.to_ascii_lowercase());
    }
    name
}
