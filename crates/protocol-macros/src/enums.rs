//! `#[wire]` on enums: string enums, internally tagged and externally tagged unions.

use proc_macro2::TokenStream as Tokens;
use quote::{format_ident, quote};
use syn::{Attribute, Data, DataEnum, DeriveInput, Field, Fields, Ident, Variant, parse_quote};

use crate::{
    WireArgs,
    generations::{self, VariantGenerations},
    inspect_field,
    names::{self, VariantNames},
    take_experimental, take_marks,
};

pub fn expand(mut input: DeriveInput, mut args: WireArgs) -> syn::Result<Tokens> {
    args.default_to("rename_all", "camelCase");
    args.default_to("rename_all_fields", "camelCase");
    let Data::Enum(data) = &mut input.data else { unreachable!("checked by the caller") };
    let names = variant_names(data, &args)?;
    let mut arms = Tokens::new();
    let mut earlier = Vec::new();
    let mut unread = Vec::new();
    for (variant, names) in data.variants.iter_mut().zip(&names) {
        unread.push(generations::take_unread(&mut variant.attrs)?);
        let (arm, generations) = inspect_variant(variant, &names.written, args.sparse)?;
        arms.extend(arm);
        earlier.extend((generations != VariantGenerations::Later).then_some(names.written.as_str()));
    }
    let name = input.ident.clone();
    let serde = args.serde.clone();
    let (derives, open) = if args.open {
        let (open, arm) = open_up(&name, data, &args, &names, &earlier, &unread);
        arms.extend(arm);
        (Tokens::new(), open)
    } else {
        (quote!(#[derive(::serde::Deserialize, ::schemars::JsonSchema)]), Tokens::new())
    };
    Ok(quote! {
        #[derive(Clone, Debug, PartialEq, ::serde::Serialize)]
        #derives
        #[serde(#(#serde),*)]
        #input

        #open

        impl crate::Inspect for #name {
            #[allow(unused_variables)]
            fn inspect(&self, findings: &mut crate::InspectFindings) {
                match self { #arms }
            }
        }
    })
}

fn variant_names(data: &DataEnum, args: &WireArgs) -> syn::Result<Vec<VariantNames>> {
    let rule = args.serde_value("rename_all").unwrap_or_default();
    data.variants.iter().map(|variant| names::of_variant(variant, &rule)).collect()
}

/// Returns the variant's arm in `inspect`, and its generations.
fn inspect_variant(
    variant: &mut Variant,
    written: &str,
    sparse: bool,
) -> syn::Result<(Tokens, VariantGenerations)> {
    let gate =
        take_experimental(&mut variant.attrs)?.map(|descriptor| quote!(findings.experimental(#descriptor);));
    let generations = generations::take_of_variant(&mut variant.attrs)?;
    let generation = match generations {
        VariantGenerations::All => None,
        VariantGenerations::Later => Some(quote!(findings.later();)),
        VariantGenerations::Earlier => Some(quote!(findings.outdated(#written);)),
    };
    let mut inspections = Tokens::new();
    let mut bound = Vec::new();
    for (at, field) in variant.fields.iter_mut().enumerate() {
        let marks = take_marks(field, sparse)?;
        let place = field.ident.clone().unwrap_or_else(|| format_ident!("field{at}"));
        inspections.extend(inspect_field(&quote!(#place), &marks));
        bound.push(place);
    }
    let pattern = pattern(variant, &bound);
    Ok((quote!(Self::#pattern => { #gate #generation #inspections }), generations))
}

fn pattern(variant: &Variant, bound: &[Ident]) -> Tokens {
    let name = &variant.ident;
    match variant.fields {
        Fields::Named(_) => quote!(#name { #(#bound),* }),
        Fields::Unnamed(_) => quote!(#name(#(#bound),*)),
        Fields::Unit => quote!(#name),
    }
}

/// Adds the variant `Unrecognized`, a `Deserialize` that selects it for unknown names only, and a schema without it.
/// Returns these implementations and the variant's arm in `inspect`. `earlier` are the names that 0.118 has, `unread` the
/// members that each variant has besides its fields.
fn open_up(
    name: &Ident,
    data: &mut DataEnum,
    args: &WireArgs,
    names: &[VariantNames],
    earlier: &[&str],
    unread: &[Vec<Field>],
) -> (Tokens, Tokens) {
    let name_text = name.to_string();
    let known = known_enum(data, args, &name_text, unread);
    remove_schema_marks(data);
    let conversions = data.variants.iter().zip(unread).map(|(variant, unread)| {
        let bound: Vec<_> = (variant.fields.iter().enumerate())
            .map(|(at, field)| field.ident.clone().unwrap_or_else(|| format_ident!("field{at}")))
            .collect();
        let written = pattern(variant, &bound);
        let ident = &variant.ident;
        let read = if unread.is_empty() { written.clone() } else { quote!(#ident { #(#bound,)* .. }) };
        quote!(KnownVariant::#read => Self::#written)
    });
    let conversions: Vec<_> = conversions.collect();
    let written: Vec<_> = names.iter().map(|names| &names.written).collect();
    let read: Vec<_> = names.iter().flat_map(|names| &names.aliases).collect();
    let tag = match args.serde_value("tag") {
        Some(tag) => quote!(Some(#tag)),
        None => quote!(None),
    };
    let is_string = data.variants.iter().all(|variant| matches!(variant.fields, Fields::Unit))
        && args.serde_value("tag").is_none();
    let (held, name_of) = if is_string {
        (quote!(String), quote!(value))
    } else {
        (quote!(::serde_json::Value), quote!(crate::open_enum::name(value, #tag).unwrap_or_default()))
    };
    let keep = if is_string { quote!(crate::open_enum::into_string(value)) } else { quote!(value) };
    // Any text is a value of a lenient string enum, so nothing but a text is expected.
    let must_be_text = (is_string && args.lenient).then(|| {
        quote! {
            if !value.is_string() {
                let text = <String as ::serde::Deserialize>::deserialize(value);
                return text.map(Self::Unrecognized).map_err(::serde::de::Error::custom);
            }
        }
    });
    data.variants.push(parse_quote! {
        /// A value that this version does not know, as it was received.
        #[serde(untagged)]
        Unrecognized(#held)
    });
    let schema = open_schema(args, is_string);
    let implementation = quote! {
        const _: () = {
            #known

            impl<'de> ::serde::Deserialize<'de> for #name {
                fn deserialize<D: ::serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                    const NAMES: &[&str] = &[#(#written,)* #(#read),*];
                    let value = ::serde_json::Value::deserialize(from)?;
                    #must_be_text
                    if crate::open_enum::name(&value, #tag).is_some_and(|name| !NAMES.contains(&name)) {
                        return Ok(Self::Unrecognized(#keep));
                    }
                    let known = KnownVariant::deserialize(value).map_err(::serde::de::Error::custom)?;
                    Ok(match known { #(#conversions),* })
                }
            }

            impl ::schemars::JsonSchema for #name {
                fn schema_name() -> ::std::borrow::Cow<'static, str> {
                    #name_text.into()
                }

                fn json_schema(generator: &mut ::schemars::SchemaGenerator) -> ::schemars::Schema {
                    #schema
                }
            }
        };
    };
    let arm = if args.lenient {
        quote!(Self::Unrecognized(_) => {})
    } else {
        // The values that only 0.166 has are read as other names of known ones.
        let later = (is_string && args.later_variants.is_some()).then_some(&read).into_iter().flatten();
        let expected = written.iter().copied().chain(later.copied());
        quote!(Self::Unrecognized(value) => findings.unrecognized(#name_of, &[#(#expected),*], &[#(#earlier),*]),)
    };
    (implementation, arm)
}

/// Returns the body of an open enum's `json_schema`.
fn open_schema(args: &WireArgs, is_string: bool) -> Tokens {
    // 0.166 has any string where 0.118 has known names.
    if is_string && args.lenient {
        return quote! {
            let known = KnownVariant::json_schema(generator);
            crate::schema::by_generation(known, <String as ::schemars::JsonSchema>::json_schema(generator))
        };
    }
    let variants = args.later_variants.as_ref().map(|ty| {
        quote!(crate::schema::add_later_variants(&mut schema, <#ty as ::schemars::JsonSchema>::json_schema(generator));)
    });
    let members = args.later_members.as_ref().map(|ty| {
        quote!(crate::schema::add_later_members(&mut schema, <#ty as ::schemars::JsonSchema>::json_schema(generator));)
    });
    quote! {
        #[allow(unused_mut)]
        let mut schema = KnownVariant::json_schema(generator);
        #variants
        #members
        schema
    }
}

/// Returns a copy of the enum without `Unrecognized`, which serde reads and the schema describes.
fn known_enum(data: &DataEnum, args: &WireArgs, name: &str, unread: &[Vec<Field>]) -> Tokens {
    let serde = &args.serde;
    let expected = match args.serde_value("tag") {
        Some(_) => format!("internally tagged enum {name}"),
        None => format!("enum {name}"),
    };
    let is_shared =
        |attr: &Attribute| ["serde", "schemars", "doc"].iter().any(|name| attr.path().is_ident(name));
    let variants = data.variants.iter().cloned().zip(unread).map(|(mut variant, unread)| {
        variant.attrs.retain(is_shared);
        for field in &mut variant.fields {
            field.attrs.retain(is_shared);
        }
        if let Fields::Named(fields) = &mut variant.fields {
            fields.named.extend(unread.iter().cloned());
        }
        variant
    });
    quote! {
        // The schema also describes fields that serde only writes.
        #[allow(dead_code)]
        #[derive(::serde::Deserialize, ::schemars::JsonSchema)]
        // Errors name the enum by its public name.
        #[serde(expecting = #expected #(, #serde)*)]
        enum KnownVariant { #(#variants),* }
    }
}

/// Removes the schema attributes from the enum itself, which no longer derives a schema.
fn remove_schema_marks(data: &mut DataEnum) {
    for variant in &mut data.variants {
        variant.attrs.retain(|attr| !attr.path().is_ident("schemars"));
        for field in &mut variant.fields {
            field.attrs.retain(|attr| !attr.path().is_ident("schemars"));
        }
    }
}
