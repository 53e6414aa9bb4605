-------------------------------- MODULE Seat --------------------------------
(***************************************************************************)
(* Dialect 2: who may write a stream. On a new connection the collector    *)
(* says HELLO, hears where the stream stands (WELCOME), says READY, and    *)
(* from then on sends batches on it.                                       *)
(*                                                                         *)
(* The first part holds the rules: a seat, one for each stream, says which *)
(* connection owns the stream. Its operators are pure, as those of         *)
(* Stream.tla are. The second part is the world: a collector that may lose *)
(* its buffer or forget the end of it, connections of which an older one   *)
(* still speaks, a sink that commits together with the store, and a server *)
(* that may crash at any moment.                                           *)
(***************************************************************************)
EXTENDS Stream

CONSTANTS LastBatch,     \* the collector produces batches up to this number
          Window,        \* it sends numbers up to this far above the last watermark it was told
          Depth,         \* messages that it may have on their way
          MaxBreaks, MaxCrashes, MaxResets,
          MaxForgets,    \* times the buffer comes back without its end
          MaxDenied,     \* batches the server refuses for now: it has no memory for them
          Undecodable,   \* numbers whose batches the server refuses for good
          HelloOutlives, \* TRUE: a HELLO may outlive a crash of the server (a proxy in between)
          WaitReady,     \* TRUE: HELLO only asks, READY takes the seat; FALSE: HELLO takes it
          CloseOlder,    \* TRUE: a welcomed HELLO closes the older connection; FALSE: READY does
          CheckNext,     \* TRUE: a HELLO whose next number is taken is refused
          SkipNacked     \* TRUE: the collector skips a batch that was refused for good

ASSUME /\ {LastBatch, Window, Depth} \subseteq Nat \ {0}
       /\ {MaxBreaks, MaxCrashes, MaxResets, MaxForgets, MaxDenied} \subseteq Nat
       /\ Undecodable \subseteq Nat
       /\ {HelloOutlives, WaitReady, CloseOlder, CheckNext, SkipNacked} \subseteq BOOLEAN

-----------------------------------------------------------------------------
(* the seat of a stream: t is a seat, s its stream, c a connection, h what *)
(* a HELLO says:                                                           *)
(*                                                                         *)
(* instance  name of the buffer, for as long as that lives                 *)
(* first     lowest number held, or the next one when none is; 0: the      *)
(*           collector has no numbers yet, and goes on where the stream is *)
(* next      the next number it will use; 0: none yet                      *)
NoHello == [instance |-> 0, first |-> 0, next |-> 0]

(* instance  whose numbers the stream has; 0: nobody's yet                 *)
(* retired   instances before that one: refused for good                   *)
(* owner     connection that writes the stream; 0: none                    *)
(* asker     connection that was welcomed and did not say READY; 0: none   *)
(* asked     its HELLO                                                     *)
(* pushed    highest watermark that the owner was told                     *)
(* gap       number the owner was refused for now: until it comes again,   *)
(*           nothing above it is taken; 0: none                            *)
NewSeat == [instance |-> 0, retired |-> {}, owner |-> 0, asker |-> 0, asked |-> NoHello, pushed |-> 0, gap |-> 0]

\* What the store keeps of a seat: connections end with the process.
SeatImage(t) == [instance |-> t.instance, retired |-> t.retired]

RestoreSeat(image) == [NewSeat EXCEPT !.instance = image.instance, !.retired = image.retired]

\* Where the numbers of h begin in the stream, and which ones nobody will send any more.
First(s, h)   == IF h.first = 0 THEN s.received + 1 ELSE h.first
Begin(s, h)   == IF s.anchored THEN Rebase(s, First(s, h)) ELSE Anchor(s, First(s, h))
GivenUp(s, h) == IF s.anchored THEN Lost(s, First(s, h)) ELSE {}

\* A superseded instance's numbers are taken. A second one waits while the owner lives. A next number
\* that is taken means that the buffer forgot what it sent: going on would give a number to two batches.
\* A first number far above what was received would make all those in between stale for good.
HelloReply(t, s, h) ==
    CASE h.instance \in t.retired                           -> "RETIRED"
      [] h.instance # t.instance /\ t.owner # 0             -> "REJECTED"
      [] CheckNext /\ h.next # 0 /\ h.next <= s.received    -> "FORGOT"
      [] s.anchored /\ h.first > s.received + 1 + Ahead     -> "FIRST"
      [] OTHER                                              -> "WELCOME"

\* A HELLO may come late, of a connection long dead: it changes neither the stream nor the instance.
\* But what comes on the older connection is not taken from here on, since the answer says what is missing.
Hello(t, c, h) == [t EXCEPT !.owner = IF CloseOlder THEN 0 ELSE @, !.asker = c, !.asked = h]

\* Goes with WELCOME: where the stream will stand once the collector is ready.
Welcome(s, h) == LET w == Begin(s, h)
                 IN  [op |-> "WELCOME", committed |-> w.committed, received |-> w.received, missing |-> w.missing]

\* The collector lives and knows where the stream stands. A connection whose HELLO was not the last is fenced.
ReadyReply(t, c) == IF t.asker = c THEN "WELCOME" ELSE "FENCED"

\* The owner is told the watermark again: it may have moved since WELCOME.
Ready(t, c) ==
    LET i == t.asked.instance
    IN  [t EXCEPT !.instance = i,
                  !.retired  = IF t.instance \in {0, i} THEN @ ELSE @ \cup {t.instance},
                  !.owner = c, !.asker = 0, !.asked = NoHello, !.pushed = 0, !.gap = 0]

\* Whether what connection c sends under a number is looked at. What is not is dropped without an
\* answer: c is fenced, or will send it again after the number that is refused.
Takes(t, c, id) == t.owner = c /\ (t.gap = 0 \/ id <= t.gap)

\* It was looked at, and is taken, refused for good or skipped.
Took(t, id) == [t EXCEPT !.gap = IF @ = id THEN 0 ELSE @]

\* It was refused for now. RESEND tells the collector to go back to it.
Refuse(t, id) == [t EXCEPT !.gap = id]

CanPush(t, s) == t.owner # 0 /\ s.committed > t.pushed

Push(t, s) == [t EXCEPT !.pushed = s.committed]

\* Connection c ended.
Leave(t, c) == [t EXCEPT !.owner = IF @ = c THEN 0 ELSE @,
                         !.asker = IF @ = c THEN 0 ELSE @,
                         !.asked = IF t.asker = c THEN NoHello ELSE @]

-----------------------------------------------------------------------------
(* the world *)

VARIABLES
    stream, seat, up,      \* the server's memory; meaningless while down
    store,                 \* what is safe: the image of the stream and that of the seat
    saving,                \* the checkpoint being written, or NoSave
    open, sealed, durable, \* sink: batches since the last seal / being committed / safe
    col,                   \* the collector
    wire, replies,         \* connection -> messages on their way to the server / to the collector, in order
    lost,                  \* numbers reported as lost because a HELLO begins above them
    skipped,               \* batches reported as lost because they were skipped
    used                   \* faults so far

vars == <<stream, seat, up, store, saving, open, sealed, durable, col, wire, replies, lost, skipped, used>>

\* The collector has one connection. When it opens the next one, the server may still hear the last.
Conns == {1, 2}
Other(c) == IF c = 1 THEN 2 ELSE 1
Quiet == [c \in Conns |-> <<>>]

\* A batch is a number and the life of the collector it was made in.
Lives == 0..(MaxResets + MaxForgets)
Contents == (1..LastBatch) \X Lives
Nums(batches) == {x[1] : x \in batches}
Empty == [x \in Contents |-> 0]
Add(bag, q) == [x \in Contents |-> bag[x] + Cardinality({i \in 1..Len(q) : <<q[i].id, q[i].body>> = x})]
Union(a, b) == [x \in Contents |-> a[x] + b[x]]

NoSave == [phase |-> "idle", image |-> Image(Fresh)]

(* conn      its connection, the last one while it has none                *)
(* mode      down, asked (HELLO is sent), ready, refused (for good)        *)
(* instance  what it calls its buffer: 1, 2, ...                           *)
(* numbered  it has numbers                                                *)
(* started   it may make batches: its numbers were checked since its       *)
(*           buffer came back                                              *)
(* acked     last watermark it was told on this connection                 *)
(* produced  last number used                                              *)
(* buffer    batches not acknowledged                                      *)
(* unsent    numbers of the buffer to (re)send                             *)
(* skips     numbers of the buffer given up: SKIP is sent in their place   *)
(* made      batches made under the numbers it has                         *)
(* life      times it lost its buffer or the end of it                     *)
NewCollector == [conn |-> 0, mode |-> "down", instance |-> 1, numbered |-> FALSE, started |-> TRUE,
                 acked |-> 0, produced |-> 0, buffer |-> {}, unsent |-> {}, skips |-> {}, made |-> {}, life |-> 0]

Init ==
    /\ stream = Fresh /\ seat = NewSeat /\ up = TRUE
    /\ store = [image |-> Image(Fresh), seat |-> SeatImage(NewSeat)] /\ saving = NoSave
    /\ open = Empty /\ sealed = Empty /\ durable = Empty
    /\ col = NewCollector
    /\ wire = Quiet /\ replies = Quiet /\ lost = {} /\ skipped = {}
    /\ used = [breaks |-> 0, crashes |-> 0, resets |-> 0, forgets |-> 0, denied |-> 0]

memory   == <<stream, seat, up>>
disk     == <<store, saving>>
sink     == <<open, sealed, durable>>
link     == <<wire, replies>>
reported == <<lost, skipped>>

\* One more message on connection c.
Put(ch, c, m) == [ch EXCEPT ![c] = Append(@, m)]

-----------------------------------------------------------------------------
(* collector *)

HelloOf(k) ==
    IF ~k.numbered THEN [NoHello EXCEPT !.instance = k.instance]
    ELSE [instance |-> k.instance,
          first |-> IF k.buffer = {} THEN k.produced + 1 ELSE Min(Nums(k.buffer)),
          next  |-> k.produced + 1]

\* Of the connection before the last, nothing is heard any more.
Connect ==
    /\ col.mode = "down" /\ up
    /\ LET c == Other(col.conn) IN
         /\ wire' = [wire EXCEPT ![c] = <<[op |-> "HELLO", hello |-> HelloOf(col)]>>]
         /\ replies' = [replies EXCEPT ![c] = <<>>]
         /\ seat' = Leave(seat, c)
         /\ col' = [col EXCEPT !.conn = c, !.mode = "asked"]
    /\ UNCHANGED <<stream, up, disk, sink, reported, used>>

Produce ==
    /\ col.numbered /\ col.started /\ col.produced < LastBatch
    /\ LET id == col.produced + 1 IN
         col' = [col EXCEPT !.produced = id, !.unsent = @ \cup {id},
                            !.buffer = @ \cup {<<id, col.life>>}, !.made = @ \cup {<<id, col.life>>}]
    /\ UNCHANGED <<memory, disk, sink, link, reported, used>>

\* What is sent under a number: the batch, or that it is given up. Its body goes with SKIP
\* only so that the promises below can name what is lost.
Message(id) == [op |-> IF id \in col.skips THEN "SKIP" ELSE "BATCH", id |-> id,
                body |-> CHOOSE life \in Lives : <<id, life>> \in col.buffer]

SendBatch ==
    /\ col.mode = "ready" /\ col.unsent # {} /\ Len(wire[col.conn]) < Depth
    /\ LET id == Min(col.unsent) IN
         /\ id <= col.acked + Window
         /\ wire' = Put(wire, col.conn, Message(id))
         /\ col' = [col EXCEPT !.unsent = @ \ {id}]
    /\ UNCHANGED <<memory, disk, sink, replies, reported, used>>

Acked(k, w) == [k EXCEPT !.acked = w, !.buffer = {x \in @ : x[1] > w},
                         !.unsent = {id \in @ : id > w}, !.skips = {id \in @ : id > w}]

\* It sends again what is missing or was never seen.
Welcomed(k, r) ==
    LET a == Acked(k, r.committed)
    IN  [a EXCEPT !.mode = "ready", !.numbered = TRUE, !.started = TRUE,
                  !.produced = IF k.numbered THEN @ ELSE r.received,
                  !.unsent = {id \in Nums(a.buffer) : id > r.received \/ id \in r.missing}]

SendAgain(k, ids) == [k EXCEPT !.unsent = @ \cup (Nums(k.buffer) \cap ids)]

Nacked(k, id) == IF SkipNacked /\ id \in Nums(k.buffer)
                 THEN [k EXCEPT !.skips = @ \cup {id}, !.unsent = @ \cup {id}] ELSE k

TakeReply ==
    /\ col.mode # "down" /\ replies[col.conn] # <<>>
    /\ LET r == Head(replies[col.conn])
           c == col.conn
       IN /\ replies' = [replies EXCEPT ![c] = Tail(@)]
          /\ wire' = IF r.op = "WELCOME" /\ WaitReady THEN Put(wire, c, [op |-> "READY"]) ELSE wire
          /\ col' = CASE r.op = "WELCOME"                        -> Welcomed(col, r)
                      [] r.op = "ACK"                            -> Acked(col, r.watermark)
                      [] r.op = "RESEND"                         -> SendAgain(col, r.id..col.produced)
                      [] r.op = "NACK"                           -> Nacked(col, r.id)
                      [] r.op \in {"FENCED", "REJECTED"}         -> [col EXCEPT !.mode = "down"]
                      [] r.op \in {"RETIRED", "FORGOT", "FIRST"} -> [col EXCEPT !.mode = "refused"]
    /\ UNCHANGED <<memory, disk, sink, reported, used>>

\* A new instance has no numbers. What it holds, it makes again under those it will get.
Anew(k) == [NewCollector EXCEPT !.conn = k.conn, !.instance = k.instance + 1, !.started = k.started,
                                !.life = k.life + 1]

StartAnew ==
    /\ col.mode = "refused" /\ col.life < MaxResets + MaxForgets
    /\ col' = Anew(col)
    /\ UNCHANGED <<memory, disk, sink, link, reported, used>>

-----------------------------------------------------------------------------
(* server *)

DoPush ==
    /\ up /\ CanPush(seat, stream)
    /\ seat' = Push(seat, stream)
    /\ replies' = Put(replies, seat.owner, [op |-> "ACK", watermark |-> stream.committed])
    /\ UNCHANGED <<stream, up, disk, sink, col, wire, reported, used>>

\* The server notices that the collector left the connection that owns the stream.
DoLeave ==
    /\ up /\ seat.owner # 0 /\ (col.mode \in {"down", "refused"} \/ col.conn # seat.owner)
    /\ seat' = Leave(seat, seat.owner)
    /\ UNCHANGED <<stream, up, disk, sink, col, link, reported, used>>

Heard(c, ops) == up /\ wire[c] # <<>> /\ Head(wire[c]).op \in ops
Rest(c) == [wire EXCEPT ![c] = Tail(@)]

\* The owner of seat t, unless it is c itself, is told that its connection is over.
Fence(t, c) == IF t.owner \in {0, c} THEN replies ELSE Put(replies, t.owner, [op |-> "FENCED"])

\* The seat changes hands. A new anchor and a new instance are in the store before anything else
\* happens; a rebase may wait for the next checkpoint, since the next HELLO would say it again.
TakeSeat(t, c) ==
    /\ stream' = Begin(stream, t.asked)
    /\ seat' = Ready(t, c)
    /\ store' = [image |-> IF stream.anchored THEN store.image ELSE Image(stream'), seat |-> SeatImage(seat')]
    /\ lost' = lost \cup GivenUp(stream, t.asked)

DoHello(c) ==
    /\ Heard(c, {"HELLO"}) /\ wire' = Rest(c)
    /\ LET h == Head(wire[c]).hello
           reply == HelloReply(seat, stream, h)
           asked == Hello(seat, c, h)
       IN IF reply # "WELCOME"
          THEN replies' = Put(replies, c, [op |-> reply]) /\ UNCHANGED <<stream, seat, store, lost>>
          ELSE /\ replies' = Put(IF CloseOlder THEN Fence(seat, c) ELSE replies, c, Welcome(stream, h))
               /\ IF WaitReady THEN seat' = asked /\ UNCHANGED <<stream, store, lost>> ELSE TakeSeat(asked, c)
    /\ UNCHANGED <<up, saving, sink, col, skipped, used>>

DoReady(c) ==
    /\ Heard(c, {"READY"}) /\ wire' = Rest(c)
    /\ IF ReadyReply(seat, c) = "FENCED"
       THEN replies' = Put(replies, c, [op |-> "FENCED"]) /\ UNCHANGED <<stream, seat, store, lost>>
       ELSE replies' = Fence(seat, c) /\ TakeSeat(seat, c)
    /\ UNCHANGED <<up, saving, sink, col, skipped, used>>

\* A batch that can't be decoded is refused for good. Nothing waits for that: the numbers above it go
\* on, and it is missing until the collector skips it. What the stream has no room for comes again.
DoReceive(c) ==
    /\ Heard(c, {"BATCH"}) /\ wire' = Rest(c)
    /\ LET id == Head(wire[c]).id
           b  == [id |-> id, body |-> Head(wire[c]).body]
       IN IF ~Takes(seat, c, id) THEN UNCHANGED <<stream, seat, replies>>
          ELSE IF id \in Undecodable
          THEN /\ stream' = stream /\ seat' = Took(seat, id)
               /\ replies' = Put(replies, c, [op |-> "NACK", id |-> id])
          ELSE IF ReceiveReply(stream, b) = "QUEUE_FULL"
          THEN /\ stream' = stream /\ seat' = Refuse(seat, id)
               /\ replies' = Put(replies, c, [op |-> "RESEND", id |-> id])
          ELSE stream' = Receive(stream, b) /\ seat' = Took(seat, id) /\ replies' = replies
    /\ UNCHANGED <<up, disk, sink, col, reported, used>>

\* Refused before the stream saw it: memory shared by all streams.
DoRefuse(c) ==
    /\ Heard(c, {"BATCH"}) /\ Takes(seat, c, Head(wire[c]).id) /\ used.denied < MaxDenied
    /\ used' = [used EXCEPT !.denied = @ + 1] /\ wire' = Rest(c)
    /\ seat' = Refuse(seat, Head(wire[c]).id)
    /\ replies' = Put(replies, c, [op |-> "RESEND", id |-> Head(wire[c]).id])
    /\ UNCHANGED <<stream, up, disk, sink, col, reported>>

DoSkip(c) ==
    /\ Heard(c, {"SKIP"}) /\ wire' = Rest(c)
    /\ LET m == Head(wire[c]) IN
         IF ~Takes(seat, c, m.id) THEN UNCHANGED <<stream, seat, skipped>>
         ELSE /\ seat' = Took(seat, m.id)
              /\ IF CanSkip(stream, m.id)
                 THEN stream' = Skip(stream, m.id) /\ skipped' = skipped \cup {<<m.id, m.body>>}
                 ELSE UNCHANGED <<stream, skipped>>
    /\ UNCHANGED <<up, disk, sink, col, replies, lost, used>>

DoEmit ==
    /\ up /\ CanEmit(stream, 1)
    /\ stream' = Emit(stream, 1)
    /\ UNCHANGED <<seat, up, disk, sink, col, link, reported, used>>

DoSettle ==
    /\ up /\ stream.inflight # <<>>
    /\ stream' = Settle(stream, 1)
    /\ open' = Add(open, stream.inflight)
    /\ UNCHANGED <<seat, up, disk, sealed, durable, col, link, reported, used>>

\* The barrier: what the sink took so far belongs to this checkpoint.
DoSnapshot ==
    /\ up /\ saving.phase = "idle" /\ CanSnapshot([stream EXCEPT !.last = 0], 1)
    /\ Dirty(stream, store.image)
    /\ stream' = Snapshot([stream EXCEPT !.last = 0], 1)   \* real numbers go on; TLC needs few
    /\ saving' = [phase |-> "sealed", image |-> Image(stream)]
    /\ sealed' = Union(sealed, open) /\ open' = Empty
    /\ UNCHANGED <<seat, up, store, durable, col, link, reported, used>>

\* Sink and store commit in one step. The seat in the store may be newer than the snapshot: it stays.
Save ==
    /\ up /\ saving.phase = "sealed"
    /\ saving' = [saving EXCEPT !.phase = "saved"]
    /\ store' = [store EXCEPT !.image = saving.image]
    /\ durable' = Union(durable, sealed) /\ sealed' = Empty
    /\ UNCHANGED <<memory, open, col, link, reported, used>>

DoComplete ==
    /\ up /\ saving.phase = "saved"
    /\ stream' = Complete(stream, 1)
    /\ saving' = NoSave
    /\ UNCHANGED <<seat, up, store, sink, col, link, reported, used>>

-----------------------------------------------------------------------------
(* faults *)

\* The collector sees its connection break; the server may hear what is on its way.
Break ==
    /\ col.mode \notin {"down", "refused"} /\ used.breaks < MaxBreaks
    /\ used' = [used EXCEPT !.breaks = @ + 1]
    /\ col' = [col EXCEPT !.mode = "down"]
    /\ UNCHANGED <<memory, disk, sink, link, reported>>

\* The collector loses its disk: buffer, numbers and instance are gone.
Reset ==
    /\ used.resets < MaxResets /\ col.life < MaxResets + MaxForgets /\ (col.numbered \/ col.mode = "asked")
    /\ used' = [used EXCEPT !.resets = @ + 1]
    /\ col' = Anew(col)
    /\ UNCHANGED <<memory, disk, sink, link, reported>>

\* The buffer comes back without its end, the instance with it: not synced, or an older copy of the disk.
Forget ==
    /\ used.forgets < MaxForgets /\ col.numbered /\ col.life < MaxResets + MaxForgets
    /\ used' = [used EXCEPT !.forgets = @ + 1]
    /\ \E p \in 0..(col.produced - 1) :
         col' = [col EXCEPT !.mode = "down", !.started = ~CheckNext, !.produced = p,
                            !.buffer = {x \in @ : x[1] <= p}, !.made = {x \in @ : x[1] <= p},
                            !.unsent = {id \in @ : id <= p}, !.skips = {id \in @ : id <= p},
                            !.life = @ + 1]
    /\ UNCHANGED <<memory, disk, sink, link, reported>>

Crash ==
    /\ up /\ used.crashes < MaxCrashes
    /\ used' = [used EXCEPT !.crashes = @ + 1]
    /\ up' = FALSE /\ stream' = Fresh /\ seat' = NewSeat /\ saving' = NoSave
    /\ open' = Empty /\ sealed' = Empty
    /\ wire' = IF HelloOutlives
               THEN [c \in Conns |-> IF Heard(c, {"HELLO"}) THEN <<Head(wire[c])>> ELSE <<>>] ELSE Quiet
    /\ replies' = Quiet
    /\ col' = [col EXCEPT !.mode = IF @ = "refused" THEN @ ELSE "down"]
    /\ UNCHANGED <<store, durable, reported>>

Restart ==
    /\ ~up /\ up' = TRUE
    /\ stream' = Restore(store.image) /\ seat' = RestoreSeat(store.seat)
    /\ UNCHANGED <<disk, sink, col, link, reported, used>>

Next == \/ Connect \/ Produce \/ SendBatch \/ TakeReply \/ StartAnew \/ DoPush \/ DoLeave
        \/ (\E c \in Conns : DoHello(c) \/ DoReady(c) \/ DoReceive(c) \/ DoSkip(c) \/ DoRefuse(c))
        \/ DoEmit \/ DoSettle \/ DoSnapshot \/ Save \/ DoComplete
        \/ Break \/ Reset \/ Forget \/ Crash \/ Restart

Spec == Init /\ [][Next]_vars

Fairness ==
    /\ WF_vars(Connect) /\ WF_vars(Produce) /\ WF_vars(SendBatch) /\ WF_vars(TakeReply) /\ WF_vars(StartAnew)
    /\ WF_vars(DoPush) /\ WF_vars(DoLeave)
    /\ \A c \in Conns : WF_vars(DoHello(c)) /\ WF_vars(DoReady(c)) /\ WF_vars(DoReceive(c)) /\ WF_vars(DoSkip(c))
    /\ WF_vars(DoEmit) /\ WF_vars(DoSettle) /\ WF_vars(DoSnapshot) /\ WF_vars(Save) /\ WF_vars(DoComplete)
    /\ WF_vars(Restart)

FairSpec == Spec /\ Fairness

-----------------------------------------------------------------------------
(* what is promised *)

StreamSound == up => TypeOK(stream) /\ Sound(stream)

\* Nobody writes while a HELLO waits for its READY; the instance that writes is in the store.
SeatSound == up => /\ CloseOlder => seat.owner = 0 \/ seat.asker = 0
                   /\ seat.instance \notin seat.retired
                   /\ SeatImage(seat) = store.seat

\* A batch leaves the collector's buffer only when the sink holds it for good, or it was reported as lost.
NoLoss == \A x \in col.made : x \in col.buffer \/ durable[x] > 0 \/ x \in skipped

\* Nothing is delivered twice, and nothing that was reported as lost is.
ExactlyOnce == \A x \in Contents : durable[x] <= IF x \in skipped THEN 0 ELSE 1

\* A number is reported as lost only when the collector holds no batch under it.
LostIsGone == [][\A id \in lost' \ lost : id \notin Nums(col.buffer)]_vars

\* Of what the collector holds, the server knows or asks for each number that it counts as seen.
NoFalseAlarm ==
    \A x \in col.buffer :
        up /\ stream.anchored /\ stream.committed < x[1] /\ x[1] <= stream.received =>
            x[1] \in stream.missing \/ x[1] \in DOMAIN stream.digests \/ x \in skipped

\* A collector that keeps to the window is refused nothing for want of room, and leaves no number out.
NoRefusal ==
    \A c \in Conns : Heard(c, {"BATCH", "SKIP"}) /\ Takes(seat, c, Head(wire[c]).id) =>
        LET m == Head(wire[c]) IN
        /\ m.op = "BATCH" => ReceiveReply(stream, [id |-> m.id, body |-> m.body]) = "RECEIVED"
        /\ m.op = "SKIP" => Near(stream, m.id)
        /\ (stream.received + 1)..(m.id - 1) \subseteq Undecodable

\* Once faults stop, everything produced is acknowledged.
AllAcknowledged == <>[](col.numbered /\ col.produced = LastBatch /\ col.buffer = {})
=============================================================================
