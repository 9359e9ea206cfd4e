//! `#[wire]` on structs.

use proc_macro2::TokenStream as Tokens;
use quote::{ToTokens, quote};
use syn::{Data, DeriveInput, Fields, Index};

use crate::{WireArgs, inspect_field, take_marks};

pub fn expand(mut input: DeriveInput, mut args: WireArgs) -> syn::Result<Tokens> {
    let Data::Struct(data) = &mut input.data else { unreachable!("checked by the caller") };
    if matches!(data.fields, Fields::Named(_)) {
        args.default_to("rename_all", "camelCase");
    }
    let mut inspections = Tokens::new();
    for (at, field) in data.fields.iter_mut().enumerate() {
        let marks = take_marks(field, args.sparse)?;
        let member = match &field.ident {
            Some(name) => name.to_token_stream(),
            None => Index::from(at).to_token_stream(),
        };
        inspections.extend(inspect_field(&quote!(&self.#member), &marks));
    }
    let name = &input.ident;
    let serde = &args.serde;
    Ok(quote! {
        #[derive(
            Clone, Debug, PartialEq, ::serde::Serialize, ::serde::Deserialize, ::schemars::JsonSchema,
        )]
        #[serde(#(#serde),*)]
        #input

        impl crate::Inspect for #name {
            #[allow(unused_variables)]
            fn inspect(&self, findings: &mut crate::InspectFindings) {
                #inspections
            }
        }
    })
}
