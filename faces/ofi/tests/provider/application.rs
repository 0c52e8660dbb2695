//! An application as libfabric's inline functions would make it: it knows the object only by `fi_prov_ini`, and calls through the
//! tables. Its buffers live as long as the test, so that lending them is sound.

use std::ffi::{CStr, c_int, c_void};
use std::ptr::null_mut;

use packhorse_fi::abi::*;

/// The provider, loaded as libfabric loads it.
pub(crate) struct Loaded(*mut Provider);

/// Fabric, domain, address vector, completion queue and an enabled endpoint.
pub(crate) struct Node {
    pub(crate) fabric: Obj,
    pub(crate) domain: Obj,
    pub(crate) av: Obj,
    pub(crate) cq: Obj,
    pub(crate) ep: Obj,
    pub(crate) name: [u8; 64],
}

/// What came out of a completion queue.
#[derive(Debug)]
pub(crate) enum Read {
    Done(CqEntry),
    Failed { entry: CqEntry, err: c_int, olen: usize, why: String },
}

fn ok(status: c_int) {
    assert_eq!(status, 0);
}

impl Loaded {
    pub(crate) fn new() -> Self {
        // Beside the test program: cargo builds both.
        let here = std::env::current_exe().expect("a test has a path");
        let path = here.parent().expect("it lies in a folder").join("libpackhorse_fi.so");
        let path =
            std::ffi::CString::new(path.to_str().expect("a path of text")).expect("no zeros");
        // SAFETY: the object's entry is what libfabric calls; it is never unloaded.
        unsafe {
            let object = libc::dlopen(path.as_ptr(), libc::RTLD_NOW);
            assert!(!object.is_null(), "{path:?} cannot be loaded");
            let entry = libc::dlsym(object, c"fi_prov_ini".as_ptr());
            assert!(!entry.is_null(), "it exports no fi_prov_ini");
            let entry: unsafe extern "C" fn() -> *mut Provider = std::mem::transmute(entry);
            Self(entry())
        }
    }

    pub(crate) fn provider(&self) -> &Provider {
        // SAFETY: static in the object, which is never unloaded.
        unsafe { &*self.0 }
    }

    /// `fi_getinfo` with hints that `change` makes of empty ones; `None` asks without.
    pub(crate) fn getinfo(
        &self,
        api: u32,
        change: Option<&dyn Fn(&mut Hints)>,
    ) -> Result<&'static mut Info, c_int> {
        self.getinfo_at(api, (None, None, 0), change)
    }

    /// `fi_getinfo` with node, service and flags, and with hints that `change` makes of empty ones; `None` asks without.
    pub(crate) fn getinfo_at(
        &self,
        api: u32,
        (node, service, flags): (Option<&CStr>, Option<&CStr>, u64),
        change: Option<&dyn Fn(&mut Hints)>,
    ) -> Result<&'static mut Info, c_int> {
        let [node, service] = [node, service].map(|it| it.map_or(std::ptr::null(), CStr::as_ptr));
        let mut out = null_mut();
        let mut hints = Hints::new();
        if let Some(change) = change {
            change(&mut hints);
        }
        let pointer = if change.is_some() { hints.info() } else { null_mut() };
        let getinfo = self.provider().getinfo;
        // SAFETY: null or whole hints, and a place for the answer, which is leaked: tests are short.
        unsafe {
            match getinfo(api, node, service, flags, pointer, &raw mut out) {
                0 => Ok(&mut *out),
                code => Err(code),
            }
        }
    }

    /// Opens everything up to an enabled endpoint that does as `change` wishes.
    pub(crate) fn node(&self, change: &dyn Fn(&mut Hints)) -> Node {
        let info = self.getinfo(version(1, 17), Some(change)).expect("what we offer");
        let mut node = self.disabled_node(info);
        node.enable();
        node
    }

    pub(crate) fn disabled_node(&self, info: &mut Info) -> Node {
        let mut node = Node {
            fabric: null_mut(),
            domain: null_mut(),
            av: null_mut(),
            cq: null_mut(),
            ep: null_mut(),
            name: [0; 64],
        };
        // SAFETY: objects are used with their own tables, in the order in which applications open them.
        unsafe {
            (*info.fabric_attr).api_version = version(1, 17); // as the library does
            ok((self.provider().fabric)(info.fabric_attr, &raw mut node.fabric, null_mut()));
            let fabric = &*node.fabric.cast::<FabricFid>();
            ok(((*fabric.ops).domain)(node.fabric, info, &raw mut node.domain, null_mut()));
            let ops = &*(*node.domain.cast::<DomainFid>()).ops;
            let mut av: AvAttr = std::mem::zeroed();
            ok((ops.av_open)(node.domain, &raw mut av, &raw mut node.av, null_mut()));
            let mut cq: CqAttr = std::mem::zeroed();
            (cq.format, cq.wait_obj) = (kind::CQ_FORMAT_TAGGED, kind::WAIT_UNSPEC);
            ok((ops.cq_open)(node.domain, &raw mut cq, &raw mut node.cq, null_mut()));
            ok((ops.endpoint)(node.domain, info, &raw mut node.ep, null_mut()));
            let bind = (*(*node.ep).ops).bind;
            ok(bind(node.ep, node.av, 0));
            let flags = flag::SEND | flag::RECV | flag::SELECTIVE_COMPLETION;
            ok(bind(node.ep, node.cq, flags));
        }
        node
    }
}

/// Hints with all their parts.
pub(crate) struct Hints {
    info: Info,
    pub(crate) tx: TxAttr,
    pub(crate) rx: RxAttr,
    pub(crate) ep: EpAttr,
    pub(crate) domain: DomainAttr,
    pub(crate) caps: u64,
    pub(crate) source: [u8; 64],
    pub(crate) source_len: usize,
    pub(crate) address_format: u32,
}

impl Hints {
    fn new() -> Self {
        // SAFETY: integers and raw pointers.
        unsafe { std::mem::zeroed() }
    }

    fn info(&mut self) -> *mut Info {
        self.info.caps = self.caps;
        self.info.tx_attr = &raw mut self.tx;
        self.info.rx_attr = &raw mut self.rx;
        self.info.ep_attr = &raw mut self.ep;
        self.info.domain_attr = &raw mut self.domain;
        self.info.addr_format = self.address_format;
        if self.source_len > 0 {
            self.info.src_addr = self.source.as_mut_ptr().cast();
            self.info.src_addrlen = self.source_len;
        }
        &raw mut self.info
    }
}

impl Node {
    pub(crate) fn enable(&mut self) {
        ok(self.control(command::ENABLE));
        let mut len = 64;
        assert_eq!(self.getname(&mut len), 0);
        assert_eq!(len, 64);
    }

    pub(crate) fn control(&self, what: c_int) -> c_int {
        // SAFETY: an object with its own table.
        unsafe { ((*(*self.ep).ops).control)(self.ep, what, null_mut()) }
    }

    /// `fi_getname` into the node's own name, of which `len` bytes are lent.
    pub(crate) fn getname(&mut self, len: &mut usize) -> c_int {
        // SAFETY: an object with its own table, and at most as many bytes as there are.
        unsafe {
            assert!(*len <= 64);
            let cm = &*(*self.ep.cast::<EpFid>()).cm;
            let out = if *len == 0 { null_mut() } else { self.name.as_mut_ptr().cast() };
            (cm.getname)(self.ep, out, len)
        }
    }

    fn fid(&self) -> &EpFid {
        // SAFETY: an open endpoint.
        unsafe { &*self.ep.cast::<EpFid>() }
    }

    pub(crate) fn tagged(&self) -> &'static TaggedOps {
        // SAFETY: a static table.
        unsafe { &*self.fid().tagged }
    }

    pub(crate) fn msg(&self) -> &'static MsgOps {
        // SAFETY: a static table.
        unsafe { &*self.fid().msg }
    }

    pub(crate) fn av_ops(&self) -> &'static AvOps {
        // SAFETY: a static table.
        unsafe { &*(*self.av.cast::<PlainFid<AvOps>>()).ops }
    }

    /// `fi_av_insert` of one address; the number it got.
    pub(crate) fn insert(&self, name: &[u8; 64]) -> Result<u64, u64> {
        let mut number = 0;
        // SAFETY: an object with its own table, one address and one place.
        let count = unsafe {
            (self.av_ops().insert)(self.av, name.as_ptr().cast(), 1, &raw mut number, 0, null_mut())
        };
        if count == 1 { Ok(number) } else { Err(number) }
    }

    /// The code that `fi_av_insert` tells for one address.
    pub(crate) fn insert_code(&self, name: &[u8; 64]) -> c_int {
        let (mut number, mut code) = (0, -1);
        let (flags, context) = (flag::SYNC_ERR, (&raw mut code).cast());
        // SAFETY: an object with its own table, one address, one place and one code.
        unsafe {
            let name = name.as_ptr().cast();
            (self.av_ops().insert)(self.av, name, 1, &raw mut number, flags, context);
        }
        code
    }

    /// `fi_av_insertsvc`.
    pub(crate) fn insertsvc(&self, node: &CStr, service: &CStr) -> Result<u64, c_int> {
        let mut number = 0;
        // SAFETY: an object with its own table, two strings and one place.
        let count = unsafe {
            let (node, service) = (node.as_ptr(), service.as_ptr());
            (self.av_ops().insertsvc)(self.av, node, service, &raw mut number, 0, null_mut())
        };
        if count == 1 { Ok(number) } else { Err(count) }
    }

    /// `fi_av_insertsvc` without a service.
    pub(crate) fn insert_text(&self, text: &CStr) -> Result<u64, c_int> {
        let (mut number, none) = (0, std::ptr::null());
        // SAFETY: an object with its own table, a string and one place.
        let count = unsafe {
            (self.av_ops().insertsvc)(self.av, text.as_ptr(), none, &raw mut number, 0, null_mut())
        };
        if count == 1 { Ok(number) } else { Err(count) }
    }

    /// The code that `fi_av_insert` tells for one address, where addresses are text.
    pub(crate) fn insert_code_of_text(&self, text: &CStr) -> c_int {
        let (mut number, mut code, list) = (0, -1, [text.as_ptr()]);
        let context = (&raw mut code).cast();
        // SAFETY: an object with its own table, a list of one string, one place and one code.
        unsafe {
            let (list, flags) = (list.as_ptr().cast(), flag::SYNC_ERR);
            (self.av_ops().insert)(self.av, list, 1, &raw mut number, flags, context);
        }
        code
    }

    /// `fi_getname` where addresses are text.
    pub(crate) fn name_as_text(&self) -> std::ffi::CString {
        let (mut text, mut len) = ([0_u8; 200], 200);
        // SAFETY: an object with its own table, and as many bytes as are said.
        ok(unsafe {
            let cm = &*self.fid().cm;
            (cm.getname)(self.ep, text.as_mut_ptr().cast(), &raw mut len)
        });
        let text = CStr::from_bytes_until_nul(&text).expect("it ends");
        assert_eq!(text.to_bytes_with_nul().len(), len);
        text.to_owned()
    }

    /// An address vector that tells of insertions.
    pub(crate) fn telling_av(&self) -> Obj {
        let mut out = null_mut();
        // SAFETY: objects with their own tables.
        unsafe {
            let ops = &*(*self.domain.cast::<DomainFid>()).ops;
            let mut attr: AvAttr = std::mem::zeroed();
            attr.flags = flag::EVENT;
            ok((ops.av_open)(self.domain, &raw mut attr, &raw mut out, null_mut()));
        }
        out
    }

    /// `fi_av_insertsym` of numbers that follow each other at one host.
    pub(crate) fn insertsym<const N: usize>(&self, node: &CStr, service: &CStr) -> [u64; N] {
        let mut numbers = [0; N];
        let (nodes, out) = (node.as_ptr(), numbers.as_mut_ptr());
        // SAFETY: an object with its own table, two strings and as many places as are said.
        let count = unsafe {
            let insertsym = self.av_ops().insertsym;
            insertsym(self.av, nodes, 1, service.as_ptr(), N, out, 0, null_mut())
        };
        assert_eq!(count as usize, numbers.iter().filter(|&&it| it != ADDR_UNSPEC).count());
        numbers
    }

    /// `fi_av_lookup`, of an address with so many bytes.
    pub(crate) fn lookup(&self, number: u64, wanted_len: usize) -> [u8; 64] {
        let (mut name, mut len) = ([0; 64], 64);
        // SAFETY: an object with its own table, and room for an address.
        let status = unsafe {
            (self.av_ops().lookup)(self.av, number, name.as_mut_ptr().cast(), &raw mut len)
        };
        assert_eq!((status, len), (0, wanted_len));
        name
    }

    /// `fi_av_straddr`.
    pub(crate) fn straddr(&self, name: &[u8; 64]) -> String {
        let (mut text, mut len) = ([0_u8; 200], 200);
        // SAFETY: an object with its own table, an address and room for its text.
        unsafe {
            let out = text.as_mut_ptr().cast();
            (self.av_ops().straddr)(self.av, name.as_ptr().cast(), out, &raw mut len);
        }
        CStr::from_bytes_until_nul(&text).unwrap().to_str().unwrap().to_owned()
    }

    pub(crate) fn remove(&self, mut number: u64) -> c_int {
        // SAFETY: an object with its own table, and one number.
        unsafe { (self.av_ops().remove)(self.av, &raw mut number, 1, 0) }
    }

    pub(crate) fn tsend(
        &self,
        bytes: &'static [u8],
        data: Option<u64>,
        to: u64,
        tag: u64,
        context: usize,
    ) {
        let (ops, context) = (self.tagged(), context as *mut c_void);
        let buf = bytes.as_ptr().cast();
        // SAFETY: an object with its own table, and bytes that stay.
        let status = unsafe {
            match data {
                Some(data) => {
                    (ops.senddata)(self.ep, buf, bytes.len(), null_mut(), data, to, tag, context)
                }
                None => (ops.send)(self.ep, buf, bytes.len(), null_mut(), to, tag, context),
            }
        };
        assert_eq!(status, 0);
    }

    pub(crate) fn tinject(&self, bytes: &[u8], to: u64, tag: u64) {
        // SAFETY: an object with its own table, and bytes for the time of the call.
        let status =
            unsafe { (self.tagged().inject)(self.ep, bytes.as_ptr().cast(), bytes.len(), to, tag) };
        assert_eq!(status, 0);
    }

    pub(crate) fn send(&self, bytes: &'static [u8], to: u64, context: usize) {
        let context = context as *mut c_void;
        // SAFETY: an object with its own table, and bytes that stay.
        let status = unsafe {
            let buf = bytes.as_ptr().cast();
            (self.msg().send)(self.ep, buf, bytes.len(), null_mut(), to, context)
        };
        assert_eq!(status, 0);
    }

    /// `fi_trecv`; the buffer is leaked, and its address returned.
    pub(crate) fn trecv(
        &self,
        len: usize,
        from: u64,
        (tag, ignore): (u64, u64),
        context: usize,
    ) -> *const u8 {
        let buf = vec![0_u8; len].leak().as_mut_ptr();
        let context = context as *mut c_void;
        // SAFETY: an object with its own table, and memory that stays.
        let status = unsafe {
            (self.tagged().recv)(self.ep, buf.cast(), len, null_mut(), from, tag, ignore, context)
        };
        assert_eq!(status, 0);
        buf
    }

    /// `fi_trecvmsg` with flags, into a leaked buffer.
    pub(crate) fn trecvmsg(
        &self,
        len: usize,
        tag: u64,
        context: usize,
        flags: u64,
    ) -> (isize, *const u8) {
        let buf = vec![0_u8; len].leak().as_mut_ptr();
        let piece = iovec { iov_base: buf.cast(), iov_len: len };
        let msg = MsgTagged {
            msg_iov: &raw const piece,
            desc: null_mut(),
            iov_count: usize::from(len > 0),
            addr: ADDR_UNSPEC,
            tag,
            ignore: 0,
            context: context as *mut c_void,
            data: 0,
        };
        // SAFETY: an object with its own table, and memory that stays.
        (unsafe { (self.tagged().recvmsg)(self.ep, &raw const msg, flags) }, buf)
    }

    /// `fi_recvmsg` with flags, into a leaked buffer.
    pub(crate) fn recvmsg(&self, len: usize, context: usize, flags: u64) -> *const u8 {
        let buf = vec![0_u8; len].leak().as_mut_ptr();
        let piece = iovec { iov_base: buf.cast(), iov_len: len };
        let msg = Msg {
            msg_iov: &raw const piece,
            desc: null_mut(),
            iov_count: 1,
            addr: ADDR_UNSPEC,
            context: context as *mut c_void,
            data: 0,
        };
        // SAFETY: an object with its own table, and memory that stays.
        assert_eq!(unsafe { (self.msg().recvmsg)(self.ep, &raw const msg, flags) }, 0);
        buf
    }

    pub(crate) fn set_free_len_min(&self, value: usize) {
        // SAFETY: an object with its own table, and a place of the right size.
        ok(unsafe {
            let ops = &*self.fid().ops;
            let (level, name) = (kind::OPT_ENDPOINT, kind::OPT_MIN_MULTI_RECV);
            (ops.setopt)(self.ep, level, name, (&raw const value).cast(), size_of::<usize>())
        });
    }

    pub(crate) fn cancel(&self, context: usize) {
        // SAFETY: an object with its own table.
        assert_eq!(unsafe { ((*self.fid().ops).cancel)(self.ep, context as *mut c_void) }, 0);
    }

    fn cq_ops(&self) -> &'static CqOps {
        cq_ops(self.cq)
    }

    /// One `fi_cq_read` of so many at most; the failed one if there is one first.
    pub(crate) fn read_some(&self, count: usize) -> Result<Vec<CqEntry>, CqEntry> {
        let ops = self.cq_ops();
        // SAFETY: an object with its own table, and room for `count` entries of the longest format, of which it says how many it wrote.
        unsafe {
            let mut entries: Vec<CqEntry> = Vec::with_capacity(count);
            match (ops.read)(self.cq, entries.as_mut_ptr().cast(), count) {
                code if code == -(libc::EAGAIN as isize) => Ok(entries),
                code if code == -(code::EAVAIL as isize) => {
                    let mut failed: CqErrEntry = std::mem::zeroed();
                    assert_eq!((ops.readerr)(self.cq, &raw mut failed, 0), 1);
                    Err(failed.entry)
                }
                read => {
                    assert!(read > 0 && read as usize <= count);
                    entries.set_len(read as usize);
                    Ok(entries)
                }
            }
        }
    }

    /// One `fi_cq_read`, and `fi_cq_readerr` if it says so.
    pub(crate) fn read(&self) -> Option<Read> {
        let ops = self.cq_ops();
        // SAFETY: an object with its own table, and room for one entry of the longest format.
        unsafe {
            let mut entry: CqEntry = std::mem::zeroed();
            match (ops.read)(self.cq, (&raw mut entry).cast(), 1) {
                1 => return Some(Read::Done(entry)),
                code if code == -(libc::EAGAIN as isize) => return None,
                code => assert_eq!(code, -(code::EAVAIL as isize)),
            }
            let mut failed: CqErrEntry = std::mem::zeroed();
            assert_eq!((ops.readerr)(self.cq, &raw mut failed, 0), 1);
            let mut text = [0; 200];
            let why =
                (ops.strerror)(self.cq, failed.prov_errno, null_mut(), text.as_mut_ptr(), 200);
            let why = CStr::from_ptr(why).to_string_lossy().into_owned();
            Some(Read::Failed { entry: failed.entry, err: failed.err, olen: failed.olen, why })
        }
    }

    /// Waits for the next entry, with both nodes driven by nobody but this and their helpers.
    pub(crate) fn wait(&self) -> Read {
        let until = std::time::Instant::now() + std::time::Duration::from_secs(60);
        while std::time::Instant::now() < until {
            if let Some(read) = self.read() {
                return read;
            }
        }
        panic!("nothing completed in 60 s");
    }

    pub(crate) fn wait_done(&self) -> CqEntry {
        match self.wait() {
            Read::Done(entry) => entry,
            failed => panic!("{failed:?}"),
        }
    }

    /// `fi_cq_sread`: what it returned.
    pub(crate) fn sread(&self, timeout_ms: c_int) -> isize {
        sread(self.cq, timeout_ms)
    }

    /// `fi_trywait` for one object.
    pub(crate) fn trywait(&self, mut object: Obj) -> c_int {
        // SAFETY: objects with their own tables, one of them in the list.
        unsafe {
            let ops = &*(*self.fabric.cast::<FabricFid>()).ops;
            (ops.trywait)(self.fabric, &raw mut object, 1)
        }
    }

    /// Opens a counter, bound to the endpoint with these flags; the endpoint must not be enabled.
    pub(crate) fn counter(&self, flags: u64, wait_obj: u32) -> Obj {
        let mut counter = null_mut();
        // SAFETY: objects with their own tables.
        unsafe {
            let ops = &*(*self.domain.cast::<DomainFid>()).ops;
            let mut attr = CntrAttr { wait_obj, ..std::mem::zeroed() };
            ok((ops.cntr_open)(self.domain, &raw mut attr, &raw mut counter, null_mut()));
            ok(((*(*self.ep).ops).bind)(self.ep, counter, flags));
        }
        counter
    }

    /// Opens an event queue.
    pub(crate) fn event_queue(&self, wait_obj: u32) -> Obj {
        let mut eq = null_mut();
        // SAFETY: objects with their own tables.
        unsafe {
            let ops = &*(*self.fabric.cast::<FabricFid>()).ops;
            let mut attr = EqAttr { wait_obj, ..std::mem::zeroed() };
            ok((ops.eq_open)(self.fabric, &raw mut attr, &raw mut eq, null_mut()));
        }
        eq
    }

    /// Closes all, in MPI's order.
    pub(crate) fn close(self) {
        for object in [self.ep, self.av, self.cq, self.domain, self.fabric] {
            ok(close(object));
        }
    }
}

pub(crate) fn close(object: Obj) -> c_int {
    // SAFETY: an object with its own table; not used again if it says 0.
    unsafe { ((*(*object).ops).close)(object) }
}

fn cq_ops(cq: Obj) -> &'static CqOps {
    // SAFETY: an open completion queue; its table is static.
    unsafe { &*(*cq.cast::<PlainFid<CqOps>>()).ops }
}

/// `fi_cq_sread` of one entry: what it returned.
pub(crate) fn sread(cq: Obj, timeout_ms: c_int) -> isize {
    // SAFETY: an object with its own table, and room for one entry.
    unsafe {
        let mut entry: CqEntry = std::mem::zeroed();
        let out = (&raw mut entry).cast();
        (cq_ops(cq).sread)(cq, out, 1, std::ptr::null(), timeout_ms)
    }
}

/// `fi_cq_signal`.
pub(crate) fn signal(cq: Obj) {
    // SAFETY: an object with its own table.
    ok(unsafe { (cq_ops(cq).signal)(cq) });
}

/// `fi_cntr_add`.
pub(crate) fn add_to_counter(counter: Obj, value: u64) {
    // SAFETY: an open counter with its own table.
    ok(unsafe { ((*(*counter.cast::<PlainFid<CntrOps>>()).ops).add)(counter, value) });
}

pub(crate) fn counted(counter: Obj) -> u64 {
    // SAFETY: an open counter with its own table.
    unsafe { ((*(*counter.cast::<PlainFid<CntrOps>>()).ops).read)(counter) }
}

/// `fi_cntr_set`.
pub(crate) fn set_counter(counter: Obj, value: u64) {
    // SAFETY: an open counter with its own table.
    ok(unsafe { ((*(*counter.cast::<PlainFid<CntrOps>>()).ops).set)(counter, value) });
}

/// Whether an object's descriptor becomes readable within a time.
pub(crate) fn rings(object: Obj, timeout_ms: c_int) -> bool {
    let mut poll = libc::pollfd { fd: -1, events: libc::POLLIN, revents: 0 };
    // SAFETY: an object with its own table, and a place for a descriptor, which is open then.
    unsafe {
        ok(((*(*object).ops).control)(object, command::GETWAIT, (&raw mut poll.fd).cast()));
        libc::poll(&raw mut poll, 1, timeout_ms) == 1
    }
}

/// `fi_eq_write` of an event with four bytes.
pub(crate) fn write_event(eq: Obj, number: u32) {
    // SAFETY: an open event queue with its own table, and four bytes.
    let written = unsafe {
        let ops = &*(*eq.cast::<PlainFid<EqOps>>()).ops;
        (ops.write)(eq, number, [7_u8; 4].as_ptr().cast(), 4, 0)
    };
    assert_eq!(written, 4);
}

/// `fi_eq_read`: the event's number, if there is one.
pub(crate) fn read_event(eq: Obj) -> Option<u32> {
    let (mut number, mut bytes) = (0, [0_u8; 4]);
    // SAFETY: an open event queue with its own table, and the places it writes to.
    let len = unsafe {
        let ops = &*(*eq.cast::<PlainFid<EqOps>>()).ops;
        (ops.read)(eq, &raw mut number, bytes.as_mut_ptr().cast(), 4, 0)
    };
    (len == 4 && bytes == [7; 4]).then_some(number)
}

/// `fi_cntr_wait`.
pub(crate) fn wait_counted(counter: Obj, threshold: u64, timeout_ms: c_int) -> c_int {
    // SAFETY: an open counter with its own table.
    unsafe { ((*(*counter.cast::<PlainFid<CntrOps>>()).ops).wait)(counter, threshold, timeout_ms) }
}

/// Bytes at an address that a completion named, in a leaked buffer.
pub(crate) fn bytes_at(address: *const u8, len: usize) -> &'static [u8] {
    // SAFETY: buffers of tests are leaked, and complete when this is asked.
    unsafe { std::slice::from_raw_parts(address, len) }
}

/// `fi_av_bind` and its like, without flags.
pub(crate) fn bind(object: Obj, other: Obj) -> c_int {
    // SAFETY: objects with their own tables.
    unsafe { ((*(*object).ops).bind)(object, other, 0) }
}

/// `fi_av_insert` of socket addresses, with a context; the numbers they got.
pub(crate) fn insert_told(av: Obj, names: &[&[u8]], context: usize) -> (c_int, Vec<u64>) {
    let (list, mut numbers) = (names.concat(), vec![0; names.len()]);
    // SAFETY: an object with its own table, and as many addresses and places as are said.
    let status = unsafe {
        let ops = &*(*av.cast::<PlainFid<AvOps>>()).ops;
        let (list, out) = (list.as_ptr().cast(), numbers.as_mut_ptr());
        (ops.insert)(av, list, names.len(), out, 0, context as *mut c_void)
    };
    (status, numbers)
}

/// `fi_eq_read` of an event in the usual form: its number, object, context and data.
pub(crate) fn read_told(eq: Obj) -> Option<(u32, usize, usize, u64)> {
    let (mut number, mut words) = (0, [0_u64; 3]);
    // SAFETY: an object with its own table, and room for as many bytes as are said.
    let len = unsafe {
        let ops = &*(*eq.cast::<PlainFid<EqOps>>()).ops;
        (ops.read)(eq, &raw mut number, words.as_mut_ptr().cast(), 24, 0)
    };
    (len == 24).then_some((number, words[0] as usize, words[1] as usize, words[2]))
}

/// `fi_eq_readerr`: object, context, data and code.
pub(crate) fn read_failed(eq: Obj) -> Option<(usize, usize, u64, c_int)> {
    // SAFETY: an object with its own table, and room for an entry.
    unsafe {
        let ops = &*(*eq.cast::<PlainFid<EqOps>>()).ops;
        let mut entry: EqErrEntry = std::mem::zeroed();
        let len = (ops.readerr)(eq, &raw mut entry, 0);
        (len == size_of::<EqErrEntry>() as isize).then_some((
            entry.fid as usize,
            entry.context as usize,
            entry.data,
            entry.err,
        ))
    }
}
