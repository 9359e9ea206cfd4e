//! The address of the database as clients see it in `config/read`: without its password.

use toml::{Table, Value};

const HIDDEN: &str = "***";

/// Hides the password in `[codicil.store] url`.
pub fn hide_password(settings: &mut Table) {
    let store = settings.get_mut("codicil").and_then(|codicil| codicil.get_mut("store"));
    if let Some(Value::String(url)) = store.and_then(|store| store.get_mut("url")) {
        *url = without_password(url);
    }
}

/// Returns an address without its password: a URL, or words such as `host=a password=b`.
fn without_password(address: &str) -> String {
    let Some((scheme, rest)) = address.split_once("://") else {
        // A password may be quoted and contain anything, so everything behind it is left out, too.
        return match address.to_ascii_lowercase().find("password") {
            Some(at) => format!("{}password={HIDDEN}", address.get(..at).unwrap_or_default()),
            None => address.to_owned(),
        };
    };
    let (location, query) =
        rest.split_once('?').map_or((rest, None), |(location, query)| (location, Some(query)));
    // The question mark may be part of a password, which the driver takes to end at the first `@`.
    if !location.contains('@') && query.is_some_and(|query| query.contains('@')) {
        return format!("{scheme}://{HIDDEN}");
    }
    let location = match location.rsplit_once('@') {
        Some((user_info, host)) => match user_info.split_once(':') {
            Some((user, _)) => format!("{user}:{HIDDEN}@{host}"),
            None => location.to_owned(),
        },
        None => location.to_owned(),
    };
    let query = query
        .map(|query| format!("?{}", query.split('&').map(shown_parameter).collect::<Vec<_>>().join("&")));
    format!("{scheme}://{location}{}", query.unwrap_or_default())
}

/// Returns a parameter without its value if that may be a password.
fn shown_parameter(parameter: &str) -> String {
    let name = parameter.split('=').next().unwrap_or_default();
    // An encoded name may be anything.
    if name.to_ascii_lowercase().contains("pass") || name.contains('%') {
        return format!("{name}={HIDDEN}");
    }
    parameter.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_shown_without_its_password() {
        let check = |address: &str, shown: &str| assert_eq!(without_password(address), shown);
        check(
            "postgres://me:secret@host:1/db?sslmode=require",
            "postgres://me:***@host:1/db?sslmode=require",
        );
        check("postgres://me:a@b/c@host/db", "postgres://me:***@host/db");
        check("postgres://me:a?b@host/db?user=x", "postgres://***");
        check("postgres://me@host/db", "postgres://me@host/db");
        check("postgres://me@host/db?password=a@b", "postgres://me@host/db?password=***");
        check("postgres://host/db", "postgres://host/db");
        check("postgres:///db?host=/run&password=secret", "postgres:///db?host=/run&password=***");
        check("postgres:///db?passw%6Frd=secret", "postgres:///db?passw%6Frd=***");
        check("host=a user=b password='x y' dbname=c", "host=a user=b password=***");
        check("host=a user=b", "host=a user=b");
    }
}
