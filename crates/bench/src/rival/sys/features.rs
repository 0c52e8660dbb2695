//! An interface's driver and features: the questions of ethtool, without `unsafe`.

use std::io;

use super::Interface;

const ETHTOOL_GDRVINFO: u32 = 0x03;
const ETHTOOL_GSTRINGS: u32 = 0x1b;
const ETHTOOL_GSSET_INFO: u32 = 0x37;
const ETHTOOL_GFEATURES: u32 = 0x3a;
const ETHTOOL_SFEATURES: u32 = 0x3b;
const ETH_SS_FEATURES: u32 = 4;
/// Length of a feature's name in the kernel's table.
const NAME_LEN: usize = 32;

impl Interface {
    /// Name of the driver.
    pub(crate) fn driver(&self) -> io::Result<String> {
        let mut words = [0_u32; 49]; // struct ethtool_drvinfo: 196 bytes, the driver's name 32 from the fourth
        words[0] = ETHTOOL_GDRVINFO;
        self.ethtool(&mut words)?;
        Ok(text_of(&words[1..9]))
    }

    /// Names of all features, by their bit.
    fn feature_names(&self) -> io::Result<Vec<String>> {
        let mut words = [ETHTOOL_GSSET_INFO, 0, 1 << ETH_SS_FEATURES, 0, 0];
        self.ethtool(&mut words)?;
        let count = words[4] as usize;
        let words_per_name = NAME_LEN / size_of::<u32>();
        let mut words = vec![0_u32; 3 + count * words_per_name];
        words[..3].copy_from_slice(&[ETHTOOL_GSTRINGS, ETH_SS_FEATURES, count as u32]);
        self.ethtool(&mut words)?;
        Ok(words[3..].chunks_exact(words_per_name).map(text_of).collect())
    }

    /// All features by name, and whether each is on.
    pub(crate) fn features(&self) -> io::Result<Vec<(String, bool)>> {
        let names = self.feature_names()?;
        let block_count = names.len().div_ceil(32);
        let mut words = vec![0_u32; 2 + 4 * block_count]; // available, requested, active, never changed
        words[..2].copy_from_slice(&[ETHTOOL_GFEATURES, block_count as u32]);
        self.ethtool(&mut words)?;
        let is_on = |bit: usize| words[2 + 4 * (bit / 32) + 2] & (1 << (bit % 32)) != 0;
        Ok(names.into_iter().enumerate().map(|(bit, name)| (name, is_on(bit))).collect())
    }

    /// Switches the features of these names off; names that the kernel does not know are passed over.
    pub(crate) fn switch_off(&self, unwanted: &[&str]) -> io::Result<()> {
        let names = self.feature_names()?;
        let block_count = names.len().div_ceil(32);
        let mut words = vec![0_u32; 2 + 2 * block_count]; // which are meant, and their new state
        words[..2].copy_from_slice(&[ETHTOOL_SFEATURES, block_count as u32]);
        for (bit, _) in names.iter().enumerate().filter(|(_, n)| unwanted.contains(&n.as_str())) {
            words[2 + 2 * (bit / 32)] |= 1 << (bit % 32);
        }
        self.ethtool(&mut words).map(drop)
    }
}

/// Text in 32-bit words as the kernel wrote them, up to the first zero.
fn text_of(words: &[u32]) -> String {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    let len = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..len]).into_owned()
}
