//! The derive `JsonSchema` of the product, which derives nothing. Only `crates/documents` needs schemas: with the
//! feature `schema`, crates take the derive of `schemars` instead.

use proc_macro::TokenStream;

/// Derives nothing.
#[proc_macro_derive(JsonSchema, attributes(schemars))]
pub fn no_schema(_: TokenStream) -> TokenStream {
    TokenStream::new()
}
