//! What a driver asks of one part: the doors of the rooms below.

use crate::bulk::outgoing::{OPERATION_BIT, SEND_BIT};
use crate::endpoint::{Path, Standing, Vec};
use crate::onesided::portals::Portals;
use crate::wire::LONE_HEAD_LEN_MAX;
use crate::{
    Address, AtomicSpec, BufId, Claim, Criteria, Endpoint, Envelope, ExposeError, Failure, Fetch,
    GetSpec, Instant, Landing, LinkTraits, Locator, Lone, Memory, NewLocators, Obstacle,
    OutStreamId, PathError, PathInfo, PeerError, PeerId, PostError, PutSpec, RecvSpec, RegionId,
    RegionSpec, ReqId, SendSpec, StreamError, StreamFront, StreamId, StreamInfo, TxTrain, Way,
};

impl Endpoint {
    /// Cancels a request. Its memory is the caller's again on return; its event says `Cancelled`. False if it has
    /// ended already.
    pub fn cancel(&mut self, now: Instant, req: ReqId) -> bool {
        if req.0 & SEND_BIT != 0 {
            return self.bulk_mut().cancel_send(req);
        }
        if req.0 & OPERATION_BIT != 0 {
            return self.onesided.cancel_operation(&mut self.messages.bulk, req);
        }
        // Places of transfers are in the same list and nobody's request, whatever number an application comes up with.
        let Some(slot) = self.bulk().receives.find(req) else {
            return self.messages.cancel_kept_end(req);
        };
        self.messages.cancel_receive(now, slot, Failure::Cancelled);
        true
    }
}

impl Endpoint {
    /// The link says that the process there has ended (PROTOCOL §4.2): whatever other paths lead to it.
    pub fn on_dead(&mut self, now: Instant, link: u8, locator: &Locator) {
        let dead: Vec<u32> = self
            .peers()
            .rows
            .ids()
            .filter(|&row| {
                let this = &self.peers().rows[row];
                let is_it = |path: &Path| path.is_usable() && path.leads_to(link, locator);
                match self.peers().actives.of(this) {
                    Some(active) => active.paths.iter().any(is_it),
                    None => this.resting_paths().any(|path| {
                        path.standing == Standing::Proven
                            && path.link == link
                            && path.locator == *locator
                    }),
                }
            })
            .collect();
        for row in dead {
            self.on_peer_died(now, self.peers().rows[row].peer());
        }
    }
}

impl Endpoint {
    /// The link says that nobody is reached there (PROTOCOL §4.5). It matters only while something is unanswered.
    pub fn on_unreachable(
        &mut self,
        now: Instant,
        link: u8,
        locator: &Locator,
        obstacle: Obstacle<'_>,
    ) {
        let is_it = |path: &Path| path.link() == link && *path.locator() == *locator;
        for row in self.peers().active_rows_with(is_it) {
            let ended = self.peers_mut().on_obstacle(now, row, (link, locator), obstacle);
            self.settle_lost(row);
            if ended.is_some() {
                self.end_association(now, row, ended);
            }
        }
    }
}

impl Endpoint {
    /// The links (bit n: link n) that may lead to the locator of this peer's address. They are tried in turn; if there is
    /// none, the peer is unreachable.
    pub fn set_contact_links(&mut self, now: Instant, peer: PeerId, links: u8) {
        let ended = self.peers_mut().choose_contact_links(peer, links);
        if ended.is_some() {
            self.end_association(now, peer.row(), ended);
        }
    }
}

/// Messages that leave as they are posted (`bulk/lone`).
impl Endpoint {
    /// Posts a send and writes the head of its frame, which is sealed: the driver puts the payload behind it and sends it
    /// now. `None`, and nothing changed: `post_send` it.
    #[inline]
    pub fn post_lone(
        &mut self,
        now: Instant,
        spec: &SendSpec<'_>,
        head: &mut [u8; LONE_HEAD_LEN_MAX],
    ) -> Option<Lone> {
        self.bulk_mut().post_lone(now, spec, head)
    }

    /// A short stream is posted in one step with its frame, as `post_lone` does for a message.
    pub fn send_lone_stream(
        &mut self,
        now: Instant,
        peer: PeerId,
        handler: u16,
        pieces: &[&[u8]],
        head: &mut [u8; LONE_HEAD_LEN_MAX],
    ) -> Option<Lone> {
        self.streams.send_lone_stream(&mut self.messages, now, (peer, handler), pieces, head)
    }

    /// The frame of a copied message that left with its post (`post_lone`).
    #[inline]
    pub fn lone_frame(&self, lone: &Lone) -> Option<&[u8]> {
        self.bulk().framed(lone.req, lone.head_len)
    }
}

impl Endpoint {
    /// The row of the peer at `address`, made if there is none. Nothing is sent until something is posted.
    pub fn add_peer(&mut self, address: &Address) -> Result<PeerId, PeerError> {
        self.messages.bulk.peers.add_peer(address, &mut self.streams)
    }
}

impl Endpoint {
    /// Streams that arrive and are not closed, chunks that are held.
    pub fn stream_counts(&self) -> (u32, u32) {
        self.streams.stream_counts()
    }

    /// The frames of a message that was written with its post (`post_copied`), one behind the other; `None` if they are not kept so.
    #[inline]
    pub fn copied_frames(&self, req: ReqId) -> Option<&[u8]> {
        self.bulk().copied_frames(req)
    }

    /// Whether this peer would fetch a message of this length from where it is (PROTOCOL §8.10), if it is lent: in one copy then, where a message that
    /// is copied goes through the link in three.
    pub fn is_fetched(&self, peer: PeerId, len: u64) -> bool {
        len >= u64::from(self.peers().settings.fetch_len_min)
            && self.peers().rows.known(peer).is_some()
            && self.bulk().is_fetched_by(peer.row())
    }

    /// Whether `poll_fetch` may have something.
    #[inline]
    pub fn has_fetches(&self) -> bool {
        self.bulk().has_fetches()
    }

    /// The next bytes to read, `len_max` at most. The driver reads them and says so by `on_fetched` before it does anything else.
    #[inline]
    pub fn poll_fetch(&mut self, now: Instant, len_max: u64) -> Option<Fetch> {
        self.bulk_mut().poll_fetch(now, len_max)
    }

    /// Where data that arrives next on a link will probably go: what is granted and missing of the message that data came
    /// for last, or of another. `None` if nothing is granted, or frames carry sums that must be verified first.
    #[inline]
    pub fn predict(&self, link: u8) -> Option<Landing> {
        self.bulk().predict(link)
    }

    /// What the driver knows of a link. Until it says so, a link is as the settings say.
    pub fn set_link(&mut self, link: u8, traits: LinkTraits) {
        self.peers_mut().set_link(link, traits)
    }

    /// How frames to the endpoint itself go, if its driver turns them around before they reach a link. Until it says so they go by the first link.
    pub fn set_home(&mut self, traits: LinkTraits) {
        self.peers_mut().set_home(traits)
    }

    /// A peer whose locators have become known: to be asked before frames are polled.
    #[inline]
    pub fn poll_new_locators(&mut self) -> Option<NewLocators> {
        self.peers_mut().poll_new_locators()
    }

    /// A peer of whose paths something was learned that others who go there would like to know: one has answered, or never did
    /// however often it was asked, or links over one card were compared.
    #[inline]
    pub fn poll_path_news(&mut self) -> Option<PeerId> {
        self.peers_mut().poll_path_news()
    }

    /// Adds the path by `link` to `locator`, of which so much is known. It carries nothing until it has proven that it leads to
    /// this very peer.
    pub fn add_path(
        &mut self,
        now: Instant,
        peer: PeerId,
        link: u8,
        locator: &Locator,
        way: &Way,
    ) -> Result<u8, PathError> {
        self.peers_mut().add_path(now, peer, link, locator, way)
    }

    /// What the driver knows of a way that is a path already, to whomever (after `poll_new_path`).
    pub fn set_way(&mut self, link: u8, locator: &Locator, way: &Way) {
        self.peers_mut().set_way(link, locator, way)
    }

    /// The paths to a peer, in the order of their numbers.
    pub fn paths(&self, peer: PeerId) -> Vec<PathInfo> {
        self.peers().paths(peer)
    }

    /// The address peers need to reach this endpoint.
    pub fn address(&self) -> Address {
        self.peers().address()
    }

    /// A local link has a new locator: peers hear of it by the frames that come from it.
    pub fn on_rebound(&mut self, now: Instant, link: u8, locator: Locator) {
        self.peers_mut().on_rebound(now, link, locator)
    }

    /// Exposes memory to peers. It belongs to the endpoint, for reading and writing as `access` says, until it is withdrawn.
    pub fn expose(&mut self, spec: RegionSpec) -> Result<RegionId, ExposeError> {
        self.onesided.expose(&mut self.messages.bulk, spec)
    }

    /// Withdraws a region. Its memory is the caller's again on return; what peers were doing with it ends with an error
    /// there. False if there is no such region.
    pub fn withdraw(&mut self, region: RegionId) -> bool {
        self.onesided.withdraw(&mut self.messages.bulk, region)
    }

    /// Whether requests that the application would be told of (`Event::Written`) are refused from now on: it has been told of more
    /// than it took. They come again, so nothing is lost (PROTOCOL §11.9). What was accepted before is told all the same.
    pub fn hold_notices(&mut self, are_held: bool) {
        self.onesided.hold_notices(are_held)
    }

    /// Puts bytes into a peer's memory. In-place payload belongs to the endpoint until the `Operated` event; copied payload
    /// is the caller's again on return.
    pub fn put(&mut self, now: Instant, spec: PutSpec<'_>) -> Result<ReqId, PostError> {
        self.onesided.put(&mut self.messages.bulk, now, spec)
    }

    /// Gets bytes out of a peer's memory. `spec.buf` belongs to the endpoint until the `Operated` event.
    pub fn get(&mut self, now: Instant, spec: GetSpec) -> Result<ReqId, PostError> {
        self.onesided.get(&mut self.messages.bulk, now, spec)
    }

    /// All of Portals. Whoever changed something there calls [`Endpoint::run_portals`].
    pub fn portals(&mut self) -> &mut Portals {
        &mut self.onesided.portals
    }

    /// All of Portals, to be looked at.
    pub fn portals_seen(&self) -> &Portals {
        &self.onesided.portals
    }

    /// Begins what is due.
    pub fn run_portals(&mut self, now: Instant) {
        self.onesided.run_portals(&mut self.messages.bulk, now);
    }

    /// Closes one of the four interfaces: what peers do there ends, and what was begun from there.
    pub fn close_portals(&mut self, now: Instant, ni: u8) {
        self.onesided.close_portals(&mut self.messages.bulk, now, ni);
    }

    /// Computes with elements in a peer's memory.
    pub fn atomic(&mut self, now: Instant, spec: AtomicSpec<'_>) -> Result<ReqId, PostError> {
        self.onesided.atomic(&mut self.messages.bulk, now, spec)
    }

    /// Posts a send. In-place payload belongs to the endpoint until the `Sent` event; copied payload is the
    /// caller's again on return, and has no event but that of a failure (`Event::Lost`).
    pub fn post_send(&mut self, now: Instant, spec: SendSpec<'_>) -> Result<ReqId, PostError> {
        self.bulk_mut().post_send(now, spec)
    }

    /// Posts a send of bytes that are to be copied. If all of it may leave now its frames are written, which is told: the driver sends them,
    /// as they are kept (`copied_frames`) if they are, else with the bytes it has.
    #[inline]
    pub fn post_copied(
        &mut self,
        now: Instant,
        spec: SendSpec<'_>,
        (count_max, len_max): (usize, usize),
        train: &mut TxTrain,
    ) -> Result<(ReqId, bool), PostError> {
        self.bulk_mut().post_copied(now, spec, (count_max, len_max), train)
    }

    /// Posts a receive. Its memory belongs to the endpoint until the request's last event.
    #[inline]
    pub fn post_recv(
        &mut self,
        now: Instant,
        spec: RecvSpec,
        memory: &mut impl Memory,
    ) -> Result<ReqId, PostError> {
        self.messages.post_recv(now, spec, memory)
    }

    /// Whether a receive posted now may find a message, here or at a peer that was refused. If not, its time matters little.
    #[inline]
    pub fn may_have_for_receive(&self) -> bool {
        self.messages.may_have_for_receive()
    }

    /// The first unexpected message a receive with these criteria would take.
    #[inline]
    pub fn probe(&mut self, criteria: &Criteria) -> Option<Envelope> {
        self.messages.probe(criteria)
    }

    /// Takes the first unexpected message out of the list, for `recv_claimed` or `discard`. Messages that lie in an
    /// overflow entry's memory cannot be claimed: they are found by posting.
    #[inline]
    pub fn claim(&mut self, now: Instant, criteria: &Criteria) -> Option<(Claim, Envelope)> {
        self.messages.claim(now, criteria)
    }

    /// Whether all of a claimed message is here, so that a receive for it ends at once.
    pub fn is_whole(&self, claim: Claim) -> bool {
        self.bulk().claimed(claim).is_some_and(|slot| self.bulk().is_whole(slot))
    }

    /// Receives a claimed message.
    #[inline]
    pub fn recv_claimed(
        &mut self,
        now: Instant,
        claim: Claim,
        buf: BufId,
        len: u64,
        user: u64,
        memory: &mut impl Memory,
    ) -> Result<ReqId, PostError> {
        self.messages.recv_claimed(now, claim, buf, len, user, memory)
    }

    /// Forgets a claimed message; for its sender it counts as received.
    #[inline]
    pub fn discard(&mut self, now: Instant, claim: Claim) -> Result<(), PostError> {
        self.messages.discard(now, claim)
    }

    /// Takes back a receive that no message was bound to; it ends as cancelled. False: a message is arriving into it or has, or it is no
    /// receive. For interfaces whose cancel must not cost a message.
    #[inline]
    pub fn cancel_unbound(&mut self, now: Instant, req: ReqId) -> bool {
        self.messages.cancel_unbound(now, req)
    }

    /// Takes an entry used many times out of matching. It ends as one that is full does, when what is arriving into it has arrived: no
    /// message is lost by it. False if it has ended already, or is none.
    #[inline]
    pub fn unlink(&mut self, req: ReqId) -> bool {
        self.messages.unlink(req)
    }

    /// A stream with news: it is new, or more of it is here, or it ended. Each is shown once, until there are more news.
    pub fn poll_ready_stream(&mut self) -> Option<(StreamId, StreamInfo)> {
        self.streams.poll_ready_stream()
    }

    /// Whether `poll_ready_stream` may have something to show.
    #[inline]
    pub fn has_ready_stream(&self) -> bool {
        self.streams.has_ready_stream()
    }

    /// Shows a stream again at the next `poll_ready_stream`: its reader stopped before he had all.
    pub fn defer_stream(&mut self, id: StreamId) {
        self.streams.defer_stream(id)
    }

    /// What is next in a stream.
    pub fn stream_front(&mut self, now: Instant, id: StreamId) -> StreamFront<'_> {
        self.streams.stream_front(&mut self.messages, now, id)
    }

    /// So many of the bytes `stream_front` showed were read.
    pub fn consume_stream(&mut self, now: Instant, id: StreamId, len: usize) {
        self.streams.consume_stream(&mut self.messages, now, id, len)
    }

    /// Whoever was handed this stream with its first chunk (`Memory::hand_over`) has read all of that but `rest`. To be called behind every hand-over, if the
    /// stream is not closed instead.
    pub fn keep_handed(&mut self, id: StreamId, rest: &[u8]) {
        self.streams.keep_handed(&mut self.messages, id, rest);
    }

    /// Whoever reads this stream waits for more: what comes next is lent (`Memory::lend`), if somebody can be lent to.
    pub fn await_stream(&mut self, id: StreamId) {
        self.streams.await_stream(id)
    }

    /// Nobody wants the rest of this stream. What is held and what still comes is dropped, and its sender may go on.
    pub fn close_stream(&mut self, now: Instant, id: StreamId) {
        self.streams.close_stream(&mut self.messages, now, id)
    }

    /// Begins a stream to a handler of a peer. Handlers start in the order of these calls.
    pub fn begin_stream(&mut self, peer: PeerId, handler: u16) -> Result<OutStreamId, StreamError> {
        self.streams.begin_stream(&mut self.messages, peer, handler)
    }

    /// Sends a whole stream of one chunk, if it fits one, is the next to begin, and there is credit: without the bookkeeping
    /// of one that goes on. False: nothing was done.
    pub fn send_short_stream(
        &mut self,
        now: Instant,
        peer: PeerId,
        handler: u16,
        pieces: &[&[u8]],
    ) -> bool {
        self.streams.send_short_stream(&mut self.messages, now, peer, handler, pieces)
    }

    /// Sends a piece. How many bytes were taken: fewer than given if there is no credit, or no room in the resend pool, now.
    pub fn write_stream(
        &mut self,
        now: Instant,
        id: OutStreamId,
        piece: &[u8],
    ) -> Result<usize, StreamError> {
        self.streams.write_stream(&mut self.messages, now, id, piece)
    }

    /// Bytes of one chunk of this stream, if a frame is to hold it.
    pub fn stream_chunk_len(&self, id: OutStreamId) -> Result<usize, StreamError> {
        self.streams.stream_chunk_len(&self.messages, id)
    }

    /// Sends a chunk of this length from memory that stays where it is until the `Sent` event. `None`: there is no credit now.
    pub fn write_stream_in_place(
        &mut self,
        now: Instant,
        id: OutStreamId,
        (buf, len): (BufId, u32),
        user: u64,
    ) -> Result<Option<ReqId>, StreamError> {
        self.streams.write_stream_in_place(&mut self.messages, now, id, (buf, len), user)
    }

    /// Lets what was given so far leave, though its chunk is not full. False: there is no credit now.
    pub fn flush_stream(&mut self, now: Instant, id: OutStreamId) -> Result<bool, StreamError> {
        self.streams.flush_stream(&mut self.messages, now, id)
    }

    /// Ends a stream. Its last bytes leave now, or by themselves when there is credit.
    pub fn end_stream(&mut self, now: Instant, id: OutStreamId) -> Result<(), StreamError> {
        self.streams.end_stream(&mut self.messages, now, id)
    }

    /// Ends a stream before its end: its reader is told that it broke.
    pub fn give_up_stream(&mut self, now: Instant, id: OutStreamId) -> Result<(), StreamError> {
        self.streams.give_up_stream(&mut self.messages, now, id)
    }

    /// Streams that the application has ended, and that wait for credit to leave.
    pub fn waiting_stream_count(&self) -> usize {
        self.streams.waiting_stream_count()
    }

    /// Whether credit came since this was asked last: who waits to send may look again.
    pub fn take_credit_news(&mut self) -> bool {
        self.streams.take_credit_news()
    }
}
