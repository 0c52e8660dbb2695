//! The way of a frame: logged, then lost, doubled, delayed, held or altered by a rule; and frames that nobody sent.

use packhorse_proto::wire::{self, Header, Writer};
use packhorse_proto::{Locator, Secret, TxFrame};

use super::sight::opened;
use super::{Kind, Net, Node, Sight, US};

/// What is done to a frame's bytes on the way.
pub(crate) type Alteration = Box<dyn Fn(&mut Vec<u8>)>;

/// What a rule does to the frames it is for.
pub(crate) enum Fate {
    Drop,
    /// Arrives twice, the copy this much later.
    Double(u64),
    /// Arrives this much later.
    Delay(u64),
    /// Kept until `Net::release`.
    Hold,
    Alter(Alteration),
}

pub(super) struct Rule {
    left: usize,
    test: Box<dyn Fn(&Sight) -> bool>,
    fate: Fate,
}

pub(super) struct Flying {
    pub(super) to: usize,
    pub(super) link: u8,
    pub(super) source: Locator,
    pub(super) bytes: Vec<u8>,
    pub(super) sight: usize,
}

impl Flying {
    /// Same way, same ends: what a system hands over as one train.
    pub(super) fn is_from_where(&self, other: &Self) -> bool {
        (self.to, self.link, self.source) == (other.to, other.link, other.source)
    }
}

impl Net {
    /// How many frames with such a record left a node.
    pub(crate) fn seen(&self, from: usize, kind: Kind) -> usize {
        self.log.iter().filter(|sight| sight.from == from && sight.has(kind)).count()
    }

    /// The frames with such a record that left a node.
    pub(crate) fn sights(&self, from: usize, kind: Kind) -> Vec<&Sight> {
        self.log.iter().filter(|sight| sight.from == from && sight.has(kind)).collect()
    }

    pub(crate) fn rule(
        &mut self,
        left: usize,
        test: impl Fn(&Sight) -> bool + 'static,
        fate: Fate,
    ) {
        self.rules.push(Rule { left, test: Box::new(test), fate });
    }

    fn next(&mut self, from: usize, kind: Kind, fate: Fate) {
        self.rule(1, move |sight| sight.from == from && sight.has(kind), fate);
    }

    pub(crate) fn drop_next(&mut self, from: usize, kind: Kind) {
        self.next(from, kind, Fate::Drop);
    }

    pub(crate) fn double_next(&mut self, from: usize, kind: Kind) {
        self.next(from, kind, Fate::Double(10 * US));
    }

    pub(crate) fn delay_next(&mut self, from: usize, kind: Kind, ns: u64) {
        self.next(from, kind, Fate::Delay(ns));
    }

    pub(crate) fn hold_next(&mut self, from: usize, kind: Kind) {
        self.next(from, kind, Fate::Hold);
    }

    pub(crate) fn drop_where(&mut self, test: impl Fn(&Sight) -> bool + 'static) {
        self.rule(usize::MAX, test, Fate::Drop);
    }

    pub(crate) fn drop_each(&mut self, from: usize, kind: Kind) {
        self.drop_where(move |sight| sight.from == from && sight.has(kind));
    }

    /// Nothing of `from` arrives anywhere.
    pub(crate) fn mute(&mut self, from: usize) {
        self.drop_where(move |sight| sight.from == from);
    }

    /// Forgets all rules.
    pub(crate) fn heal(&mut self) {
        self.rules.clear();
    }

    /// Delivers what was held.
    pub(crate) fn release(&mut self) {
        for flying in std::mem::take(&mut self.held) {
            self.launch(flying, 0);
        }
    }

    pub(crate) fn held_count(&self) -> usize {
        self.held.len()
    }

    /// The association id by which `from`'s frames name `to`.
    pub(crate) fn id_used(&self, from: usize, to: usize) -> u64 {
        self.used[&(from, to)]
    }

    /// A frame in the place of one that `from` really sends to `to`: same id, path and packet number, so that both sides
    /// go on as if it had been said.
    pub(crate) fn forge(
        &mut self,
        from: usize,
        to: usize,
        write: impl FnOnce(&mut Writer<'_>),
        body: &[u8],
    ) {
        self.pump();
        let is_ping = move |s: &Sight| s.from == from && s.to == Some(to) && s.has(Kind::Ping);
        let rule = Rule { left: 1, test: Box::new(is_ping), fate: Fate::Drop };
        self.rules.insert(0, rule);
        let here = self.nodes[from].locators[0];
        self.nodes[from].ep.on_rebound(self.now, 0, here); // makes it say something
        self.pump();
        assert_eq!(self.rules.remove(0).left, 0, "no association");
        let header = self.log.iter().rfind(|sight| is_ping(sight)).expect("a ping").view().header;
        self.forge_as(from, to, header, write, body);
    }

    /// A frame that nobody sent.
    pub(crate) fn forge_as(
        &mut self,
        from: usize,
        to: usize,
        header: Header,
        write: impl FnOnce(&mut Writer<'_>),
        body: &[u8],
    ) {
        let mut bytes = vec![];
        let mut writer = Writer::begin(&mut bytes, header);
        write(&mut writer);
        wire::seal(&mut bytes, body.len(), self.nodes[to].ep.address().secret, None);
        bytes.extend_from_slice(body);
        let source = self.nodes[from].locators[0];
        self.inject(to, source, &bytes);
    }

    /// A frame arrives out of nowhere.
    pub(crate) fn inject(&mut self, to: usize, source: Locator, bytes: &[u8]) {
        let Node { ep, ram, .. } = &mut self.nodes[to];
        ep.on_frame(self.now, 0, source, bytes, ram);
    }

    fn launch(&mut self, flying: Flying, more_ns: u64) {
        let at = self.now + self.delay_ns[usize::from(flying.link)] + more_ns;
        self.flown += 1;
        self.flying.insert((at, self.flown), flying);
    }

    pub(super) fn transmit(&mut self, from: usize, tx: &TxFrame, bytes: Vec<u8>) {
        let route = self.routes.get(&tx.to).copied();
        let source = self.nodes[from].locators[usize::from(tx.link)];
        let key = route.map_or(Secret::PUBLIC, |(to, _)| self.nodes[to].ep.address().secret);
        let key = if opened(key, &bytes).is_some() { key } else { Secret::PUBLIC };
        let (to, link) = (route.map(|(to, _)| to), tx.link);
        let sight = Sight {
            at: self.now,
            from,
            to,
            link,
            source,
            target: tx.to,
            bytes: bytes.clone(),
            key,
        };
        if opened(key, &bytes).is_none() {
            return; // to a locator nobody has any more
        }
        if let (Some(to), header) = (to, sight.view().header)
            && header.to != 0
        {
            self.used.insert((from, to), header.to);
        }
        let rule = self.rules.iter_mut().find(|rule| rule.left > 0 && (rule.test)(&sight));
        self.log.push(sight);
        let mut bytes = bytes;
        let (mut launches, mut is_held) = (vec![0], false);
        if let Some(rule) = rule {
            rule.left = rule.left.saturating_sub(1);
            match &rule.fate {
                Fate::Drop => launches.clear(),
                &Fate::Double(later) => launches.push(later),
                &Fate::Delay(later) => launches = vec![later],
                Fate::Hold => {
                    launches.clear();
                    is_held = true;
                }
                Fate::Alter(change) => change(&mut bytes),
            }
        }
        let Some((to, link)) = route else { return };
        let sight = self.log.len() - 1;
        let flying = |bytes| Flying { to, link, source, bytes, sight };
        if is_held {
            self.held.push(flying(bytes.clone()));
        }
        for later in launches {
            self.launch(flying(bytes.clone()), later);
        }
    }
}
