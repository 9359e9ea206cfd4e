//! Permissions of one command beyond its policy.

use std::path::PathBuf;

use codicil_protocol::{AdditionalPermissionProfile, GrantedPermissionProfile, RequestPermissionProfile};

/// Granted permissions. A path that does not exist grants nothing: to let a command create a file, grant its directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SandboxGrants {
    /// Files and directory trees to read. Without effect if the policy allows to read everything.
    pub readable: Vec<PathBuf>,
    /// Files and directory trees to write. A socket in this list can be connected to.
    pub writable: Vec<PathBuf>,
    /// Whether the whole network is granted. `false` does not take away what the policy allows.
    pub network: bool,
}

/// Implements the conversion for the three profiles of the protocol, which have the same fields.
macro_rules! grants_from {
    ($($profile:ty),*) => {$(
        impl From<&$profile> for SandboxGrants {
            fn from(profile: &$profile) -> Self {
                let files = profile.file_system.as_ref();
                let paths = |list: Option<&Vec<codicil_protocol::AbsolutePathBuf>>| {
                    list.into_iter().flatten().map(|path| path.to_path_buf()).collect()
                };
                Self {
                    readable: paths(files.and_then(|files| files.read.as_ref())),
                    writable: paths(files.and_then(|files| files.write.as_ref())),
                    network: profile.network.as_ref().and_then(|network| network.enabled).unwrap_or(false),
                }
            }
        }
    )*};
}

grants_from!(AdditionalPermissionProfile, GrantedPermissionProfile, RequestPermissionProfile);

#[cfg(test)]
mod tests {
    use codicil_protocol::{AbsolutePathBuf, AdditionalFileSystemPermissions, AdditionalNetworkPermissions};

    use super::*;

    #[test]
    fn a_profile_is_converted() {
        let profile = AdditionalPermissionProfile {
            network: Some(AdditionalNetworkPermissions { enabled: Some(true) }),
            file_system: Some(AdditionalFileSystemPermissions {
                read: None,
                write: AbsolutePathBuf::new("/a").map(|path| vec![path]),
                ..AdditionalFileSystemPermissions::default()
            }),
        };
        let grants = SandboxGrants::from(&profile);
        assert_eq!(grants, SandboxGrants { readable: vec![], writable: vec!["/a".into()], network: true });
        assert_eq!(SandboxGrants::from(&AdditionalPermissionProfile::default()), SandboxGrants::default());
    }
}
