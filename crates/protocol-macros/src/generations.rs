//! The attributes that say which generation of the protocol has a member. They become `x-` members of its schema, which
//! the export evaluates.

use quote::ToTokens;
use syn::{
    Attribute, Field, Ident, LitStr, Token, Type, parse::ParseStream, parse_quote, punctuated::Punctuated,
};

use crate::{is_option, take_attribute};

const EARLIER: &str = "0.118";
const LATER: &str = "0.166";

/// Takes the attributes of a field. Returns whether 0.118 does not have it.
pub fn take_of_field(field: &mut Field) -> syn::Result<bool> {
    if take_attribute(&mut field.attrs, "unpublished").is_some() {
        field.attrs.push(parse_quote!(#[schemars(skip)]));
        field.attrs.push(parse_quote!(#[serde(default)]));
    }
    let since = take_since(&mut field.attrs)?;
    if let Some(since) = &since {
        field.attrs.push(parse_quote!(#[schemars(extend("x-since" = #LATER))]));
        if since.required {
            field.attrs.push(parse_quote!(#[schemars(extend("x-required" = true))]));
        }
        if !has_serde_default(&field.attrs) {
            field.attrs.push(parse_quote!(#[serde(default)]));
        }
    }
    take_until(&mut field.attrs)?;
    let earlier = take_type(&mut field.attrs, "in_118")?;
    let later = take_type(&mut field.attrs, "in_166")?;
    if earlier.is_some() || later.is_some() {
        let of_field = || OtherType { ty: field.ty.clone(), required: !is_option(&field.ty) };
        let earlier = earlier.unwrap_or_else(of_field);
        let later = later.unwrap_or_else(of_field);
        let both = format!(
            "crate::schema::ByGeneration<{}, {}>",
            earlier.ty.to_token_stream(),
            later.ty.to_token_stream()
        );
        let [earlier, later] = [earlier.required, later.required];
        field.attrs.push(parse_quote!(#[schemars(with = #both)]));
        field.attrs.push(parse_quote!(#[schemars(extend("x-required-by-generation" = [#earlier, #later]))]));
    }
    Ok(since.is_some())
}

/// The generations that have a variant.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum VariantGenerations {
    All,
    /// 0.166 only.
    Later,
    /// 0.118 only.
    Earlier,
}

/// Takes the attributes of a variant.
pub fn take_of_variant(attrs: &mut Vec<Attribute>) -> syn::Result<VariantGenerations> {
    if take_attribute(attrs, "unpublished").is_some() {
        attrs.push(parse_quote!(#[schemars(skip)]));
    }
    let is_later = take_since(attrs)?.is_some();
    if is_later {
        attrs.push(parse_quote!(#[schemars(extend("x-since" = #LATER))]));
    }
    let is_earlier = attrs.iter().any(|attr| attr.path().is_ident("until"));
    take_until(attrs)?;
    Ok(if is_later {
        VariantGenerations::Later
    } else if is_earlier {
        VariantGenerations::Earlier
    } else {
        VariantGenerations::All
    })
}

struct Since {
    required: bool,
}

fn take_since(attrs: &mut Vec<Attribute>) -> syn::Result<Option<Since>> {
    let Some(attr) = take_attribute(attrs, "since") else { return Ok(None) };
    let parse = |input: ParseStream<'_>| {
        expect(&input.parse()?, LATER)?;
        Ok(Since { required: parse_required(input)? == Some(true) })
    };
    attr.parse_args_with(parse).map(Some)
}

/// Reads the rest of an attribute: nothing, `, required` or `, optional`.
fn parse_required(input: ParseStream<'_>) -> syn::Result<Option<bool>> {
    if input.parse::<Option<Token![,]>>()?.is_none() {
        return Ok(None);
    }
    let word: Ident = input.parse()?;
    match word.to_string().as_str() {
        "required" => Ok(Some(true)),
        "optional" => Ok(Some(false)),
        _ => Err(syn::Error::new_spanned(word, "expected `required` or `optional`")),
    }
}

fn take_until(attrs: &mut Vec<Attribute>) -> syn::Result<()> {
    if let Some(attr) = take_attribute(attrs, "until") {
        expect(&attr.parse_args()?, EARLIER)?;
        attrs.push(parse_quote!(#[schemars(extend("x-until" = #EARLIER))]));
    }
    Ok(())
}

/// The type of a field in one generation.
struct OtherType {
    ty: Type,
    required: bool,
}

fn take_type(attrs: &mut Vec<Attribute>, name: &str) -> syn::Result<Option<OtherType>> {
    let parse = |input: ParseStream<'_>| {
        let ty = input.parse()?;
        let required = parse_required(input)?.unwrap_or(!is_option(&ty));
        Ok(OtherType { ty, required })
    };
    take_attribute(attrs, name).map(|attr| attr.parse_args_with(parse)).transpose()
}

/// Takes the members of a variant that 0.166 has and this version does not read.
pub fn take_unread(attrs: &mut Vec<Attribute>) -> syn::Result<Vec<Field>> {
    let Some(attr) = take_attribute(attrs, "unread") else { return Ok(Vec::new()) };
    let parse = |input: ParseStream<'_>| {
        Punctuated::<Field, Token![,]>::parse_terminated_with(input, Field::parse_named)
    };
    let members = attr.parse_args_with(parse)?.into_iter().map(|mut member| {
        member.attrs.push(parse_quote!(#[serde(default, deserialize_with = "crate::open_enum::unread")]));
        member.attrs.push(parse_quote!(#[schemars(extend("x-since" = #LATER))]));
        member
    });
    Ok(members.collect())
}

fn expect(given: &LitStr, generation: &str) -> syn::Result<()> {
    if given.value() == generation {
        Ok(())
    } else {
        Err(syn::Error::new_spanned(given, format!("expected \"{generation}\"")))
    }
}

fn has_serde_default(attrs: &[Attribute]) -> bool {
    let is_serde = |attr: &&Attribute| attr.path().is_ident("serde");
    attrs.iter().filter(is_serde).any(|attr| attr.to_token_stream().to_string().contains("default"))
}
