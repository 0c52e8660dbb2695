-- Packhorse in Wireshark and tshark: frames and records of PROTOCOL.md, sections 1 and 2.
--
--   wireshark -X lua_script:tools/wireshark/packhorse.lua capture.pcapng
--   tshark    -X lua_script:tools/wireshark/packhorse.lua -r capture.pcapng -O packhorse
--
-- Frames on raw links have EtherType 0x88B5. On UDP they are known by their shape; where that is not enough:
-- `-d udp.port==7000,packhorse`. What a Hello and a Welcome mask (addresses, locators) stays masked here, and the keyed
-- check is not verified: both need the receiver's secret.

local packhorse = Proto("packhorse", "Packhorse")

local HEADER_LEN = 24
local VERSION = 1
local FORM_ENCRYPTED = 0x20
local LOCATOR_LEN = 24
local ADDRESS_LEN = 64

local STATUS = { [0] = "ok", [1] = "matched", [2] = "cancelled" }
local REPLY = { [0] = "done", [1] = "no such key", [2] = "range", [3] = "access", [4] = "no such operation", [5] = "withdrawn" }
local CODE = { [0] = "found", [1] = "no such number", [2] = "wrong key", [3] = "closed", [4] = "no common version" }
local LANE = { [0] = "message", [1] = "put", [2] = "get" }

-- A record: its name, the fields of its head behind the kind byte as {name, length in bytes[, value strings]} in order (no
-- name: padding), whether a body follows (its length is the u16 at byte 2), what else belongs to the head (`more`, or so many bytes: `rest`).
local RECORDS = {
    [0x01] = { "Check", { { nil, 3 }, { "crc", 4 } } },
    [0x02] = { "Ack", { { "path", 1 }, { "range_count", 1 }, { nil, 1 }, { "largest", 4 }, { "first_len", 4 },
        { "delay_ns", 4 }, { "credit_len", 4 }, { nil, 4 } }, more = "ranges" },
    [0x03] = { "Ping", { { nil, 7 } } },
    [0x04] = { "Pad", { { nil, 1 }, { "len", 2 }, { nil, 4 } }, body = true },
    [0x20] = { "Grant", { { "lane", 1, LANE }, { nil, 2 }, { "message", 4 }, { "offset", 8 }, { "len", 8 } } },
    [0x21] = { "Data", { { "lane", 1, LANE }, { "len", 2 }, { "message", 4 }, { "offset", 8 } }, body = true },
    [0x22] = { "Done", { { "status", 1, STATUS }, { nil, 2 }, { "message", 4 }, { "placed_len", 8 } } },
    [0x23] = { "Cancel", { { nil, 3 }, { "message", 4 } } },
    [0x24] = { "Refuse", { { nil, 1 }, { "order", 2 }, { "message", 4 } } },
    [0x25] = { "Recall", { { nil, 1 }, { "order", 2 }, { "message", 4 } } },
    [0x26] = { "Query", { { "space", 1 }, { nil, 2 }, { "query", 4 }, { "bits", 8 }, { "ignore", 8 } } },
    [0x27] = { "Found", { { "space", 1 }, { "flags", 1 }, { nil, 1 }, { "query", 4 }, { "message", 4 }, { nil, 4 },
        { "bits", 8 }, { "total", 8 }, { "immediate", 8 } } },
    [0x28] = { "StreamCredit", { { nil, 7 }, { "limit", 8 } } },
    [0x30] = { "Hello", { { "flags", 1 }, { "versions", 1 }, { "locator_count", 1 }, { "frame_len_max", 2 }, { nil, 2 },
        { "incarnation", 8 }, { "id", 8 }, { "nonce", 8 } }, more = "hello" },
    [0x31] = { "Challenge", { { "flags", 1 }, { "versions", 1 }, { nil, 5 }, { "nonce", 8 }, { "cookie", 8 },
        { "incarnation", 8 } } },
    [0x32] = { "Echo", { { nil, 7 }, { "cookie", 8 } } },
    [0x33] = { "Welcome", { { "flags", 1 }, { "versions", 1 }, { "locator_count", 1 }, { "frame_len_max", 2 }, { nil, 2 },
        { "id", 8 }, { "nonce", 8 }, { "incarnation", 8 } }, more = "welcome" },
    [0x34] = { "Reset", { { nil, 7 }, { "id", 8 } } },
    [0x35] = { "Goodbye", { { nil, 3 }, { "message", 4 } } },
    [0x36] = { "Versions", { { "min", 1 }, { "max", 1 }, { nil, 5 }, { "nonce", 8 } } },
    [0x37] = { "PathChallenge", { { "path", 1 }, { nil, 6 }, { "nonce", 8 } } },
    [0x38] = { "PathResponse", { { "path", 1 }, { nil, 6 }, { "nonce", 8 } } },
    [0x39] = { "Find", { { "versions", 1 }, { "number", 2 }, { nil, 4 }, { "nonce", 8 }, { "nonce_more", 8 } }, rest = 104 },
    [0x3A] = { "Named", { { "code", 1, CODE }, { "number", 2 }, { "versions", 1 }, { nil, 3 }, { "nonce", 8 },
        { "nonce_more", 8 }, { "salt", 8 } }, rest = 96 },
    [0x46] = { "Get", { { nil, 3 }, { "number", 4 }, { "key", 8 }, { "target", 8 }, { "total", 8 } } },
    [0x47] = { "Atomic", { { "op", 1 }, { "len", 2 }, { "number", 4 }, { "key", 8 }, { "target", 8 }, { "datatype", 1 },
        { "fetch", 1 }, { nil, 2 }, { "total", 4 } }, body = true },
    [0x48] = { "Reply", { { "status", 1, REPLY }, { "len", 2 }, { "number", 4 } }, body = true },
    [0x49] = { "Replied", { { nil, 1 }, { "count", 2 }, { "first", 4 } } },
    [0x4A] = { "End", { { nil, 3 }, { "number", 4 } } },
    [0x4B] = { "Matched", { { "action", 1 }, { "len", 2 }, { "number", 4 }, { "bits", 8 }, { "offset", 8 }, { "total", 8 },
        { "header", 8 }, { "initiator", 8 }, { "portal", 4 }, { "uid", 4 }, { "interface", 1 }, { "ack", 1 }, { "op", 1 },
        { "datatype", 1 }, { nil, 4 } }, body = true },
    [0x4C] = { "MatchedSwap", { { "action", 1 }, { "len", 2 }, { "number", 4 }, { "bits", 8 }, { "offset", 8 }, { "total", 8 },
        { "header", 8 }, { "initiator", 8 }, { "portal", 4 }, { "uid", 4 }, { "interface", 1 }, { "ack", 1 }, { "op", 1 },
        { "datatype", 1 }, { nil, 4 } }, rest = 32, body = true },
    [0x4D] = { "Outcome", { { "fail", 1 }, { "len", 2 }, { "number", 4 }, { "moved", 8 }, { "offset", 8 }, { "list", 1 },
        { "flags", 1 }, { nil, 6 } }, body = true },
}

-- The message kinds: bit 0 says that an immediate follows, bit 1 that the sender wants to hear of the match.
local function add_messages(kind, name, fields)
    for bits = 0, 3 do
        local all = { { "space", 1 }, { "len", 2 }, { "message", 4 }, { "bits", 8 } }
        for _, field in ipairs(fields) do all[#all + 1] = field end
        if bits % 2 == 1 then all[#all + 1] = { "immediate", 8 } end
        RECORDS[kind + bits] = { name, all, body = true, wants_match = bits >= 2 }
    end
end
add_messages(0x10, "Eager", {})
add_messages(0x14, "Fragment", { { "offset", 4 }, { "total", 4 } })
add_messages(0x18, "Rts", { { "total", 4 }, { "total_high", 2 }, { "ahead", 2 } })
add_messages(0x1C, "Told", { { "total", 4 }, { "total_high", 2 }, { "ahead", 2 } })

-- The puts: bit 0 says that an immediate follows.
local function add_puts(kind, name, fields, body)
    for bit = 0, 1 do
        local all = { { nil, 1 }, { "len", 2 }, { "number", 4 }, { "key", 8 }, { "target", 8 } }
        for _, field in ipairs(fields) do all[#all + 1] = field end
        if bit == 1 then all[#all + 1] = { "immediate", 8 } end
        RECORDS[kind + bit] = { name, all, body = body }
    end
end
add_puts(0x40, "Put", {}, true)
add_puts(0x42, "PutPart", { { "offset", 4 }, { "total", 4 } }, true)
add_puts(0x44, "PutAsk", { { "total", 8 } }, false)

local NAMES = {}
for kind, record in pairs(RECORDS) do NAMES[kind] = record[1] end

local header = {
    check = ProtoField.uint64("packhorse.check", "Check", base.HEX),
    to = ProtoField.uint64("packhorse.to", "To association", base.HEX),
    packet = ProtoField.uint32("packhorse.packet", "Packet", base.DEC),
    heads_len = ProtoField.uint16("packhorse.heads_len", "Length of heads", base.DEC),
    path = ProtoField.uint8("packhorse.path", "Path", base.DEC),
    form = ProtoField.uint8("packhorse.form", "Form", base.HEX),
    version = ProtoField.uint8("packhorse.version", "Version", base.DEC, nil, 0x0F),
    stranger = ProtoField.bool("packhorse.stranger", "Keyed for strangers", 8, nil, 0x10),
    encrypted = ProtoField.bool("packhorse.encrypted", "Encrypted", 8, nil, FORM_ENCRYPTED),
}
local shared = {
    kind = ProtoField.uint8("packhorse.record.kind", "Kind", base.HEX, NAMES),
    record = ProtoField.string("packhorse.record", "Record"),
    body = ProtoField.bytes("packhorse.record.body", "Body"),
    masked = ProtoField.bytes("packhorse.record.masked", "Masked"),
    wants_match = ProtoField.bool("packhorse.record.wants_match", "Wants to hear of the match"),
    skip = ProtoField.uint32("packhorse.ack.skip", "Missing", base.DEC),
    take = ProtoField.uint32("packhorse.ack.take", "Received", base.DEC),
}

-- One field per name of a record: packhorse.data.offset, packhorse.hello.id, ...
local fields = {}
local all_fields = {}
for _, field in pairs(header) do all_fields[#all_fields + 1] = field end
for _, field in pairs(shared) do all_fields[#all_fields + 1] = field end
local HEXADECIMAL = { crc = true, flags = true, versions = true, bits = true, ignore = true, immediate = true,
    incarnation = true, id = true, nonce = true, nonce_more = true, salt = true, cookie = true }
local MAKERS = { [1] = ProtoField.uint8, [2] = ProtoField.uint16, [4] = ProtoField.uint32, [8] = ProtoField.uint64 }
for _, record in pairs(RECORDS) do
    for _, field in ipairs(record[2]) do
        local name, len, values = field[1], field[2], field[3]
        if name then
            local key = "packhorse." .. record[1]:lower() .. "." .. name
            if not fields[key] then
                local shown = HEXADECIMAL[name] and base.HEX or base.DEC
                fields[key] = MAKERS[len](key, name, shown, values)
                all_fields[#all_fields + 1] = fields[key]
            end
        end
    end
end
packhorse.fields = all_fields

local malformed = ProtoExpert.new("packhorse.malformed", "Malformed frame", expert.group.MALFORMED, expert.severity.ERROR)
packhorse.experts = { malformed }

-- Length of the head at `at`, or nil if no record we know fits there.
local function head_len(tvb, at, heads_end)
    local record = RECORDS[tvb(at, 1):uint()]
    if not record then return nil end
    local len = 1
    for _, field in ipairs(record[2]) do len = len + field[2] end
    len = len + (record.rest or 0)
    if record.more == "hello" then len = len + ADDRESS_LEN end
    if at + len > heads_end then return nil end
    if record.more == "ranges" then len = len + 8 * tvb(at + 2, 1):uint() end
    if record.more == "hello" or record.more == "welcome" then len = len + LOCATOR_LEN * tvb(at + 3, 1):uint() end
    if record.more == "welcome" and bit.band(tvb(at + 1, 1):uint(), 0x02) ~= 0 then len = len + ADDRESS_LEN end
    if at + len > heads_end then return nil end
    return len, record
end

-- Cuts the heads into records: a list of {at, len, record, body_at, body_len}; and what is wrong, if anything is.
local function cut(tvb)
    local heads_end = HEADER_LEN + tvb(20, 2):le_uint()
    local records, at, body_at = {}, HEADER_LEN, heads_end
    if heads_end > tvb:len() or heads_end % 8 ~= 0 then return records, "heads are longer than the frame" end
    while at < heads_end do
        local len, record = head_len(tvb, at, heads_end)
        if not len then return records, "a head is of no known kind or does not fit" end
        local body_len = record.body and tvb(at + 2, 2):le_uint() or 0
        if body_at + body_len > tvb:len() then return records, "a body passes the end of the frame" end
        records[#records + 1] = { at = at, len = len, record = record, body_at = body_at, body_len = body_len }
        at, body_at = at + len, body_at + body_len
    end
    if body_at ~= tvb:len() then return records, "bytes behind the last body" end
    return records, nil
end

local function show_more(tvb, tree, part, at)
    local head_end = part.at + part.len
    if part.record.more == "ranges" then
        while at + 8 <= head_end do
            tree:add_le(shared.skip, tvb(at, 4))
            tree:add_le(shared.take, tvb(at + 4, 4))
            at = at + 8
        end
    elseif at < head_end then
        tree:add(shared.masked, tvb(at, head_end - at))
    end
end

local function show_record(tvb, tree, part)
    local record = part.record
    local name = record[1]
    local sub = tree:add(shared.record, tvb(part.at, part.len), name)
    sub:add(shared.kind, tvb(part.at, 1))
    if record.wants_match then sub:add(shared.wants_match, tvb(part.at, 1), true) end
    local at, what = part.at + 1, name
    for _, field in ipairs(record[2]) do
        if field[1] then
            sub:add_le(fields["packhorse." .. name:lower() .. "." .. field[1]], tvb(at, field[2]))
        end
        at = at + field[2]
    end
    show_more(tvb, sub, part, at)
    if part.body_len > 0 then
        sub:add(shared.body, tvb(part.body_at, part.body_len))
        what = what .. "(" .. part.body_len .. ")"
    end
    return what
end

function packhorse.dissector(tvb, pinfo, tree)
    if tvb:len() < HEADER_LEN then return 0 end
    pinfo.cols.protocol = "Packhorse"
    local top = tree:add(packhorse, tvb())
    top:add_le(header.check, tvb(0, 8))
    top:add_le(header.to, tvb(8, 8))
    top:add_le(header.packet, tvb(16, 4))
    top:add_le(header.heads_len, tvb(20, 2))
    top:add(header.path, tvb(22, 1))
    local form = top:add(header.form, tvb(23, 1))
    form:add(header.version, tvb(23, 1))
    form:add(header.stranger, tvb(23, 1))
    form:add(header.encrypted, tvb(23, 1))
    local bits = tvb(23, 1):uint()
    if bits % 16 ~= VERSION or bit.band(bits, FORM_ENCRYPTED) ~= 0 then
        pinfo.cols.info = "frame of version " .. (bits % 16) .. ", records not read"
        return tvb:len()
    end
    local records, wrong = cut(tvb)
    local what = {}
    for n, part in ipairs(records) do what[n] = show_record(tvb, top, part) end
    if wrong then
        top:add_proto_expert_info(malformed, wrong)
        what[#what + 1] = "malformed"
    end
    pinfo.cols.info = "#" .. tvb(16, 4):le_uint() .. " " .. table.concat(what, " ")
    top:append_text(": " .. table.concat(what, " "))
    return tvb:len()
end

-- A datagram is ours if its header makes sense and its records fill it to the last byte.
local function is_ours(tvb, pinfo, tree)
    if tvb:len() < HEADER_LEN + 8 then return false end
    local form = tvb(23, 1):uint()
    if form % 16 ~= VERSION or bit.band(form, 0xE0) ~= 0 or tvb(20, 2):le_uint() == 0 then return false end
    local _, wrong = cut(tvb)
    if wrong then return false end
    packhorse.dissector(tvb, pinfo, tree)
    return true
end

packhorse:register_heuristic("udp", is_ours)
-- On raw Ethernet 12 bytes stand before the frame: numbers of both endpoints, the frame's length, zero. What is behind it is padding.
local ether = Proto("packhorse_ether", "Packhorse on Ethernet")
local to_endpoint = ProtoField.uint32("packhorse_ether.to", "To endpoint", base.HEX)
local from_endpoint = ProtoField.uint32("packhorse_ether.from", "From endpoint", base.HEX)
local frame_len = ProtoField.uint16("packhorse_ether.len", "Length of the frame")
ether.fields = { to_endpoint, from_endpoint, frame_len }

function ether.dissector(tvb, pinfo, tree)
    if tvb:len() < 12 then return 0 end
    local top = tree:add(ether, tvb(0, 12))
    top:add_le(to_endpoint, tvb(0, 4))
    top:add_le(from_endpoint, tvb(4, 4))
    top:add_le(frame_len, tvb(8, 2))
    local len = math.min(tvb(8, 2):le_uint(), tvb:len() - 12)
    if len > 0 then packhorse.dissector(tvb(12, len):tvb(), pinfo, tree) end
    return tvb:len()
end

DissectorTable.get("ethertype"):add(0x88B5, ether)
DissectorTable.get("udp.port"):add_for_decode_as(packhorse)
DissectorTable.get("wtap_encap"):add(wtap.USER0, packhorse)
