//! `#[wire]`: the attribute of every protocol type.
//!
//! It derives `Clone`, `Debug`, `PartialEq`, `Serialize`, `Deserialize`, `JsonSchema` and the protocol's own `Inspect`,
//! and renames members to camelCase. Its arguments:
//!
//! | argument | meaning |
//! |---|---|
//! | `sparse` | absent options are omitted when written; without it they are written as `null` |
//! | `open` | (enums) unknown variants are kept in a variant `Unrecognized` instead of failing |
//! | `lenient` | (open enums) a server accepts such a value too |
//! | `later_variants = "Type"` | (open enums) 0.166 also has the variants of this enum; they are kept in `Unrecognized` |
//! | `later_members = "Type"` | (open enums) in 0.166 each variant may have the members of this struct |
//! | anything else | passed on to serde (`tag = "type"`, `rename_all = "snake_case"`, …) |
//!
//! On members, `#[experimental("descriptor")]` gates a field or variant by the experimental capability, and `#[omit]`
//! omits one absent option in a type that is not sparse. The other attributes of fields and variants say which
//! generation of the protocol has them. They affect the exported schemas only; both generations are read and written
//! with the same types.
//!
//! | attribute | meaning |
//! |---|---|
//! | `#[since("0.166")]` | 0.118 does not have the member; a field may be absent |
//! | `#[since("0.166", required)]` | the same; the schema of 0.166 requires the field |
//! | `#[until("0.118")]` | 0.166 does not have the member |
//! | `#[in_118(Type)]`, `#[in_166(Type)]` | the field has another type in the schema of that generation; `, required` and `, optional` say whether it is required there |
//! | `#[unread(name: Type, …)]` | (variants of open enums) 0.166 has these members, which are neither read nor written |
//! | `#[unpublished]` | no published schema has the member; a field may be absent |
//!
//! Serde's untagged fallback variant is no substitute for `open`: it would also accept a *known* variant with a wrong
//! field, and the sender would not get an error.

mod enums;
mod generations;
mod names;
mod structs;

use proc_macro::TokenStream;
use proc_macro2::TokenStream as Tokens;
use quote::quote;
use syn::{
    Attribute, Data, DeriveInput, Field, LitStr, Meta, Token, Type, parse::Parser, parse_macro_input,
    parse_quote, punctuated::Punctuated,
};

/// Turns a struct or enum into a protocol type. See the documentation of the crate.
#[proc_macro_attribute]
pub fn wire(args: TokenStream, item: TokenStream) -> TokenStream {
    let input = parse_macro_input!(item as DeriveInput);
    WireArgs::parse(args)
        .and_then(|args| match &input.data {
            Data::Struct(_) => structs::expand(input, args),
            Data::Enum(_) => enums::expand(input, args),
            Data::Union(_) => Err(syn::Error::new_spanned(input, "a union has no wire form")),
        })
        .unwrap_or_else(syn::Error::into_compile_error)
        .into()
}

struct WireArgs {
    sparse: bool,
    open: bool,
    lenient: bool,
    later_variants: Option<Type>,
    later_members: Option<Type>,
    serde: Vec<Meta>,
}

impl WireArgs {
    fn parse(tokens: TokenStream) -> syn::Result<Self> {
        let metas = Punctuated::<Meta, Token![,]>::parse_terminated.parse(tokens)?;
        let mut args = Self {
            sparse: false,
            open: false,
            lenient: false,
            later_variants: None,
            later_members: None,
            serde: Vec::new(),
        };
        for meta in metas {
            match &meta {
                Meta::NameValue(pair) if pair.path.is_ident("later_variants") => {
                    args.later_variants = names::string_value(&meta, "later_variants")
                        .map(|name| syn::parse_str(&name))
                        .transpose()?;
                }
                Meta::NameValue(pair) if pair.path.is_ident("later_members") => {
                    args.later_members = names::string_value(&meta, "later_members")
                        .map(|name| syn::parse_str(&name))
                        .transpose()?;
                }
                Meta::Path(path) if path.is_ident("sparse") => args.sparse = true,
                Meta::Path(path) if path.is_ident("open") => args.open = true,
                Meta::Path(path) if path.is_ident("lenient") => args.lenient = true,
                _ => args.serde.push(meta),
            }
        }
        Ok(args)
    }

    fn serde_value(&self, name: &str) -> Option<String> {
        self.serde.iter().find_map(|meta| names::string_value(meta, name))
    }

    /// Adds `name = "value"` unless the type has a value for it.
    fn default_to(&mut self, name: &str, value: &str) {
        if self.serde_value(name).is_none() {
            let name = syn::Ident::new(name, proc_macro2::Span::call_site());
            self.serde.push(parse_quote!(#name = #value));
        }
    }
}

/// What `inspect` reports about a field that is used.
struct FieldMarks {
    /// The descriptor of an experimental field.
    experimental: Option<LitStr>,
    /// Whether 0.118 does not have the field.
    is_later: bool,
}

/// Translates the attributes of a field for serde and schemars.
fn take_marks(field: &mut Field, sparse: bool) -> syn::Result<FieldMarks> {
    let experimental = take_experimental(&mut field.attrs)?;
    if experimental.is_some() {
        field.attrs.push(parse_quote!(#[schemars(extend("x-experimental" = true))]));
    }
    let is_later = generations::take_of_field(field)?;
    let omitted = take_attribute(&mut field.attrs, "omit").is_some();
    if omitted || (sparse && is_option(&field.ty)) {
        field.attrs.push(parse_quote!(#[serde(skip_serializing_if = "Option::is_none")]));
    }
    Ok(FieldMarks { experimental, is_later })
}

fn take_experimental(attrs: &mut Vec<Attribute>) -> syn::Result<Option<LitStr>> {
    take_attribute(attrs, "experimental").map(|attr| attr.parse_args()).transpose()
}

fn take_attribute(attrs: &mut Vec<Attribute>, name: &str) -> Option<Attribute> {
    let at = attrs.iter().position(|attr| attr.path().is_ident(name))?;
    Some(attrs.remove(at))
}

fn is_option(ty: &Type) -> bool {
    matches!(ty, Type::Path(path) if path.path.segments.last().is_some_and(|last| last.ident == "Option"))
}

/// Returns the statements that inspect the field `place`. An empty list counts as a use of later fields only, and of all
/// fields in later generations.
fn inspect_field(place: &Tokens, marks: &FieldMarks) -> Tokens {
    let is_used = if marks.is_later { quote!(is_given) } else { quote!(is_used) };
    let gate = marks.experimental.as_ref().map(|descriptor| {
        quote! {
            if crate::Inspect::#is_used(#place) {
                findings.experimental(#descriptor);
            } else if crate::Inspect::is_given(#place) {
                findings.given_experimental(#descriptor);
            }
        }
    });
    let generation = marks.is_later.then(|| {
        quote! {
            if crate::Inspect::is_used(#place) {
                findings.later();
            }
        }
    });
    quote! {
        #gate
        #generation
        crate::Inspect::inspect(#place, findings);
    }
}
