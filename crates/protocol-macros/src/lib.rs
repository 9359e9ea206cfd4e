//! `#[wire]`: what every type of the protocol has in common, said once.
//!
//! It derives `Clone`, `Debug`, `PartialEq`, serde's two traits, `JsonSchema` and the protocol's own
//! `Inspect`, and names members in camelCase. Its arguments:
//!
//! | argument | meaning |
//! |---|---|
//! | `sparse` | absent options are left out when written; without it they are written as `null` |
//! | `open` | (enums) values of a newer peer are kept in a variant `Unrecognized` instead of failing |
//! | `lenient` | (open enums) a server does not refuse such a value either |
//! | anything else | handed to serde as it is (`tag = "type"`, `rename_all = "snake_case"`, …) |
//!
//! And on members: `#[experimental("descriptor")]` puts a field or variant behind the experimental
//! capability, `#[omit]` leaves one absent option out in a type that is not sparse.
//!
//! `open` cannot be left to serde: its untagged fallback variant would also swallow a *known* variant
//! with a wrong field, and the sender would never be told what is wrong.

mod enums;
mod names;
mod structs;

use proc_macro::TokenStream;
use proc_macro2::TokenStream as Tokens;
use quote::quote;
use syn::{
    Attribute, Data, DeriveInput, Field, LitStr, Meta, Token, Type, parse::Parser, parse_macro_input,
    parse_quote, punctuated::Punctuated,
};

/// See the crate's documentation.
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
    serde: Vec<Meta>,
}

impl WireArgs {
    fn parse(tokens: TokenStream) -> syn::Result<Self> {
        let metas = Punctuated::<Meta, Token![,]>::parse_terminated.parse(tokens)?;
        let mut args = Self { sparse: false, open: false, lenient: false, serde: Vec::new() };
        for meta in metas {
            match &meta {
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

    /// Adds `name = "value"` unless the type says otherwise.
    fn default_to(&mut self, name: &str, value: &str) {
        if self.serde_value(name).is_none() {
            let name = syn::Ident::new(name, proc_macro2::Span::call_site());
            self.serde.push(parse_quote!(#name = #value));
        }
    }
}

/// Turns the marks on a field into what serde and schemars understand and returns its descriptor,
/// if it is experimental.
fn take_marks(field: &mut Field, sparse: bool) -> syn::Result<Option<LitStr>> {
    let experimental = take_experimental(&mut field.attrs)?;
    if experimental.is_some() {
        field.attrs.push(parse_quote!(#[schemars(extend("x-experimental" = true))]));
    }
    let omitted = take_attribute(&mut field.attrs, "omit").is_some();
    if omitted || (sparse && is_option(&field.ty)) {
        field.attrs.push(parse_quote!(#[serde(skip_serializing_if = "Option::is_none")]));
    }
    Ok(experimental)
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

/// The statements that inspect one field held by `place`.
fn inspect_field(place: &Tokens, experimental: Option<&LitStr>) -> Tokens {
    let gate = experimental.map(|descriptor| {
        quote! {
            if crate::Inspect::is_used(#place) {
                findings.experimental(#descriptor);
            }
        }
    });
    quote! {
        #gate
        crate::Inspect::inspect(#place, findings);
    }
}
