------------------------------- MODULE System -------------------------------
(***************************************************************************)
(* The stream in its world: a collector with a buffer, a connection that   *)
(* may break, a sink that may refuse, a store for checkpoints, and a       *)
(* server that may crash at any moment.                                    *)
(***************************************************************************)
EXTENDS Stream

CONSTANTS LastBatch,     \* the collector produces batches 1..LastBatch
          Window,        \* batches the collector may hold unacknowledged
          MaxBreaks, MaxCrashes, MaxResets, MaxRefusals, MaxAborts,
          InOrder,       \* TRUE: a refused batch holds back those above it
          Depth,         \* requests the collector may have on their way
          GoBackN,       \* TRUE: on connecting, the collector re-sends all it holds
          AnyOrder,      \* TRUE: the collector sends what it holds in any order
          MaxLost,       \* times the store may be lost in a crash
          MaxDenied,     \* batches the server refuses before they reach the stream
          MaxRollbacks,  \* times the sink loses its open transaction
          Transactional  \* TRUE: sink and store commit in one step

VARIABLES
    stream, up,          \* the server's memory; meaningless while down
    store,               \* image of the last completed checkpoint
    saving,              \* the checkpoint being written, or NoSave
    open, sealed, durable, \* sink: batches since the last seal / being committed / safe
    first,               \* collector: number of its first batch
    produced, made, buffer, \* collector: last number used; batches made; not yet evicted
    unsent, flying,      \* collector: batches to (re)send; sent, no reply yet
    wire,                \* requests on their way, in order
    replies,             \* replies on their way, in order
    connected,
    named,               \* highest batch this connection has had accepted or asked about
    refused,             \* batches this connection was refused and did not get accepted since
    told,                \* highest watermark this connection was told
    taking,              \* batches of the delivery in flight that the sink has taken
    lostStores, denied, rollbacks,
    breaks, crashes, resets, refusals, aborts

vars == <<stream, up, store, saving, open, sealed, durable, first, produced, made, buffer, unsent, flying,
          wire, replies, connected, named, refused, told, taking, lostStores, denied, rollbacks,
          breaks, crashes, resets, refusals, aborts>>

Batch(id) == [id |-> id, body |-> resets]   \* a reset collector numbers new data from the start
NoSave == [image |-> Image(Fresh), phase |-> "idle"]
Numbers == 1..LastBatch
Contents == Numbers \X (0..MaxResets)
Empty == [x \in Contents |-> 0]
Add(bag, q) == [x \in Contents |-> bag[x] + Cardinality({i \in 1..Len(q) : <<q[i].id, q[i].body>> = x})]
Union(a, b) == [x \in Contents |-> a[x] + b[x]]

Init ==
    /\ stream = Fresh /\ up = TRUE
    /\ store = Image(Fresh) /\ saving = NoSave
    /\ open = Empty /\ sealed = Empty /\ durable = Empty
    /\ produced \in 0..1 /\ first = produced + 1 /\ made = {} /\ buffer = {} /\ unsent = {} /\ flying = {}
    /\ wire = <<>> /\ replies = <<>> /\ connected = FALSE /\ named = 0 /\ refused = {} /\ told = 0
    /\ taking = 0 /\ lostStores = 0 /\ denied = 0 /\ rollbacks = 0
    /\ breaks = 0 /\ crashes = 0 /\ resets = 0 /\ refusals = 0 /\ aborts = 0

server    == <<stream, up, store, saving, open, sealed, durable, refusals, aborts, taking, rollbacks>>
sinkSide  == <<up, store, saving, open, sealed, durable, refusals, aborts, taking, rollbacks>>
collector == <<first, produced, made, buffer, unsent, flying>>
link      == <<wire, replies, connected, named, refused, told>>
faults    == <<breaks, crashes, resets, lostStores, denied>>

-----------------------------------------------------------------------------
(* collector *)

Connect ==
    /\ ~connected /\ up
    /\ connected' = TRUE /\ wire' = <<>> /\ replies' = <<>> /\ named' = 0 /\ refused' = {} /\ told' = 0
    /\ unsent' = IF GoBackN THEN buffer ELSE unsent \cup flying
    /\ flying' = {}
    /\ UNCHANGED <<server, first, produced, made, buffer, faults>>

Produce ==
    /\ Cardinality(buffer) < Window
    /\ \E id \in (produced + 1)..(IF Sparse THEN produced + 2 ELSE produced + 1) :
         /\ id <= LastBatch
         /\ produced' = id
         /\ made' = made \cup {id}
         /\ buffer' = buffer \cup {id}
         /\ unsent' = unsent \cup {id}
    /\ UNCHANGED <<server, first, flying, link, faults>>

Spare == Len(wire) + Len(replies) < Depth

SendBatch ==
    /\ connected /\ unsent # {} /\ Spare
    /\ \E id \in IF AnyOrder THEN unsent ELSE {Min(unsent)} :
         /\ wire' = Append(wire, <<"BATCH", id>>)
         /\ unsent' = unsent \ {id}
         /\ flying' = flying \cup {id}
    /\ UNCHANGED <<server, first, produced, made, buffer, replies, connected, named, refused, told, faults>>

SendCommit(id) ==
    /\ connected /\ Spare
    /\ id \in buffer            \* a collector may ask about anything it holds, sent or not
    /\ wire' = Append(wire, <<"COMMIT", id>>)
    /\ UNCHANGED <<server, collector, replies, connected, named, refused, told, faults>>

TakeReply ==
    /\ connected /\ replies # <<>>
    /\ replies' = Tail(replies)
    /\ LET r == Head(replies) IN
         IF r.to = "BATCH"
         THEN /\ flying' = flying \ {r.id} /\ buffer' = buffer
              /\ unsent' = IF r.code = "RECEIVED" \/ r.id \notin buffer
                           THEN unsent ELSE unsent \cup {r.id}
         ELSE CASE r.code = "ACK" -> /\ buffer' = {id \in buffer : id > r.watermark}
                                     /\ unsent' = {id \in unsent : id > r.watermark}
                                     /\ flying' = {id \in flying : id > r.watermark}
                [] r.code \in {"RESEND", "RETRY"} /\ r.id \in buffer \ flying
                                  -> unsent' = unsent \cup {r.id} /\ UNCHANGED <<buffer, flying>>
                [] OTHER          -> UNCHANGED <<unsent, buffer, flying>>
    /\ UNCHANGED <<server, first, produced, made, wire, connected, named, refused, told, faults>>

-----------------------------------------------------------------------------
(* server *)

DoAnchor ==
    /\ up /\ ~stream.anchored
    /\ wire # <<>> /\ Head(wire)[1] = "BATCH"
    /\ stream' = Anchor(stream, first)      \* 1, or what the operator said; never what happens to come first
    /\ store' = Image(Anchor(stream, first))
    /\ UNCHANGED <<up, saving, open, sealed, durable, refusals, aborts, taking, rollbacks,
                   collector, link, faults>>

\* After a refusal, everything above it waits until it is accepted.
Blocked(id) == InOrder /\ \E r \in refused : r < id

\* An ACK needs a proof that this connection speaks of the same batches: one at or above it was
\* RECEIVED on it (its digest agreed), and none at or below it was refused.
Proven(id) == id <= named
Answer(id) ==
    CASE \E r \in refused : r <= id              -> "RETRY"
      [] id > stream.committed \/ Proven(id)     -> CommitReply(stream, id)
      [] id \in DOMAIN stream.digests            -> "RESEND"
      [] OTHER                                   -> "PENDING"
Told == Min({stream.committed, named} \cup {r - 1 : r \in refused})

\* What the collector was told to forget it will not send again: that refusal holds nothing back.
Refuse(id) == IF id <= told THEN refused ELSE refused \cup {id}

\* Refused before the stream saw it: memory shared by all streams, decoding, too large.
Deny ==
    /\ up /\ connected /\ wire # <<>> /\ Head(wire)[1] = "BATCH" /\ denied < MaxDenied
    /\ denied' = denied + 1 /\ wire' = Tail(wire)
    /\ refused' = Refuse(Head(wire)[2])
    /\ replies' = Append(replies, [to |-> "BATCH", id |-> Head(wire)[2], watermark |-> 0, code |-> "QUEUE_FULL"])
    /\ UNCHANGED <<server, collector, connected, named, told, breaks, crashes, resets, lostStores>>

Serve ==
    /\ up /\ connected /\ wire # <<>>
    /\ Head(wire)[1] = "BATCH" => stream.anchored
    /\ wire' = Tail(wire)
    /\ LET id == Head(wire)[2]
           code == IF Blocked(id) THEN "RETRY" ELSE ReceiveReply(stream, Batch(id))
       IN IF Head(wire)[1] = "BATCH"
          THEN /\ stream' = IF Blocked(id) THEN stream ELSE Receive(stream, Batch(id))
               /\ named' = IF code = "RECEIVED" THEN Max(named, id) ELSE named
               /\ refused' = IF code = "RECEIVED" THEN refused \ {id} ELSE Refuse(id)
               /\ told' = told
               /\ replies' = Append(replies, [to |-> "BATCH", id |-> id, watermark |-> 0, code |-> code])
          ELSE /\ stream' = stream /\ named' = named /\ refused' = refused
               /\ told' = IF Answer(id) = "ACK" THEN Max(told, Told) ELSE told
               /\ replies' = Append(replies, [to |-> "COMMIT", id |-> id, code |-> Answer(id), watermark |-> Told])
    /\ UNCHANGED <<sinkSide, collector, connected, faults>>

DoEmit ==
    /\ up /\ \E n \in 1..QueueCapacity : CanEmit(stream, n) /\ stream' = Emit(stream, n)
    /\ UNCHANGED <<sinkSide, collector, link, faults>>

\* The sink takes a delivery batch by batch; what came of it is known later.
DoTake ==
    /\ up /\ taking < Len(stream.inflight)
    /\ taking' = taking + 1
    /\ open' = Add(open, <<stream.inflight[taking + 1]>>)
    /\ UNCHANGED <<stream, up, store, saving, sealed, durable, refusals, aborts, rollbacks, collector, link, faults>>

\* All of it, or the sink stopped after some whole batches and has undone the rest.
DoSettle ==
    /\ up /\ stream.inflight # <<>>
    /\ taking < Len(stream.inflight) => refusals < MaxRefusals
    /\ refusals' = IF taking < Len(stream.inflight) THEN refusals + 1 ELSE refusals
    /\ stream' = Settle(stream, taking) /\ taking' = 0
    /\ UNCHANGED <<up, store, saving, open, sealed, durable, aborts, rollbacks, collector, link, faults>>

\* The barrier: what the sink took so far belongs to this checkpoint. Never in the middle of a delivery.
DoSnapshot ==
    /\ up /\ saving.phase = "idle" /\ taking = 0 /\ CanSnapshot([stream EXCEPT !.last = 0], 1)
    /\ Dirty(stream, store)
    /\ stream' = Snapshot([stream EXCEPT !.last = 0], 1)   \* real numbers go on; TLC needs few
    /\ saving' = [image |-> Image(stream), phase |-> "sealed"]
    /\ sealed' = Union(sealed, open) /\ open' = Empty
    /\ UNCHANGED <<up, store, durable, refusals, aborts, taking, rollbacks, collector, link, faults>>

\* At-least-once: the sink is flushed first, the store written after.
Flush ==
    /\ up /\ ~Transactional /\ saving.phase = "sealed"
    /\ durable' = Union(durable, sealed) /\ sealed' = Empty
    /\ saving' = [saving EXCEPT !.phase = "flushed"]
    /\ UNCHANGED <<stream, up, store, open, refusals, aborts, taking, rollbacks, collector, link, faults>>

Save ==
    /\ up
    /\ IF Transactional
       THEN saving.phase = "sealed" /\ durable' = Union(durable, sealed) /\ sealed' = Empty
       ELSE saving.phase = "flushed" /\ UNCHANGED <<durable, sealed>>
    /\ store' = saving.image
    /\ saving' = [saving EXCEPT !.phase = "saved"]
    /\ UNCHANGED <<stream, up, open, refusals, aborts, taking, rollbacks, collector, link, faults>>

DoComplete ==
    /\ up /\ saving.phase = "saved"
    /\ stream' = Complete(stream, 1)
    /\ saving' = NoSave
    /\ UNCHANGED <<up, store, open, sealed, durable, refusals, aborts, taking, rollbacks, collector, link, faults>>

\* Certainly not written, and the sink still has it: what was sealed stays with the next one.
\* When it is not certain, the process ends (Crash) and the store tells.
DoAbort ==
    /\ up /\ saving.phase \in {"sealed", "flushed"} /\ aborts < MaxAborts
    /\ aborts' = aborts + 1
    /\ stream' = Abort(stream, 1)
    /\ saving' = NoSave
    /\ UNCHANGED <<up, store, open, sealed, durable, refusals, taking, rollbacks, collector, link, faults>>

\* The sink lost its transaction, what was sealed and is not durable included.
DoRollback ==
    /\ up /\ rollbacks < MaxRollbacks /\ CanRollback(stream, 0) /\ saving.phase \in {"idle", "sealed"}
    /\ rollbacks' = rollbacks + 1
    /\ stream' = Rollback(stream, 0) /\ saving' = NoSave /\ taking' = 0
    /\ open' = Empty /\ sealed' = Empty
    /\ UNCHANGED <<up, store, durable, refusals, aborts, collector, link, faults>>

\* The sink lost what it took after the barrier; the checkpoint being written may still complete.
DoRollbackOpen ==
    /\ up /\ rollbacks < MaxRollbacks /\ CanRollback(stream, 1)
    /\ rollbacks' = rollbacks + 1
    /\ stream' = Rollback(stream, 1) /\ taking' = 0
    /\ open' = Empty
    /\ UNCHANGED <<up, store, saving, sealed, durable, refusals, aborts, collector, link, faults>>

DoResume ==
    /\ up /\ CanResume(stream) /\ stream' = Resume(stream)
    /\ UNCHANGED <<sinkSide, collector, link, faults>>

-----------------------------------------------------------------------------
(* faults *)

Break ==
    /\ connected /\ breaks < MaxBreaks
    /\ breaks' = breaks + 1
    /\ connected' = FALSE /\ wire' = <<>> /\ replies' = <<>> /\ named' = 0 /\ refused' = {} /\ told' = 0
    /\ UNCHANGED <<server, collector, crashes, resets, lostStores, denied>>

\* The collector loses its disk: buffer and counter are gone.
Reset ==
    /\ resets < MaxResets /\ produced >= first
    /\ resets' = resets + 1
    /\ produced' = first - 1 /\ made' = {} /\ buffer' = {} /\ unsent' = {} /\ flying' = {}
    /\ connected' = FALSE /\ wire' = <<>> /\ replies' = <<>> /\ named' = 0 /\ refused' = {} /\ told' = 0
    /\ UNCHANGED <<server, first, breaks, crashes, lostStores, denied>>

Crash ==
    /\ up /\ crashes < MaxCrashes
    /\ crashes' = crashes + 1
    /\ up' = FALSE /\ stream' = Fresh /\ saving' = NoSave /\ taking' = 0
    /\ open' = Empty /\ sealed' = Empty
    /\ \/ store' = store /\ lostStores' = lostStores
       \/ store' = Image(Fresh) /\ lostStores < MaxLost /\ lostStores' = lostStores + 1
    /\ connected' = FALSE /\ wire' = <<>> /\ replies' = <<>> /\ named' = 0 /\ refused' = {} /\ told' = 0
    /\ UNCHANGED <<durable, refusals, aborts, rollbacks, collector, breaks, resets, denied>>

Restart ==
    /\ ~up /\ up' = TRUE
    /\ stream' = Restore(store)
    /\ UNCHANGED <<store, saving, open, sealed, durable, refusals, aborts, taking, rollbacks, collector, link, faults>>

Next == \/ Connect \/ Produce \/ SendBatch \/ (\E id \in Numbers : SendCommit(id)) \/ TakeReply
        \/ DoAnchor \/ Deny \/ Serve \/ DoEmit \/ DoTake \/ DoSettle \/ DoRollback \/ DoRollbackOpen \/ DoResume \/ DoSnapshot \/ Flush \/ Save \/ DoComplete \/ DoAbort
        \/ Break \/ Reset \/ Crash \/ Restart

Spec == Init /\ [][Next]_vars

Fairness ==
    /\ WF_vars(Connect) /\ WF_vars(Produce) /\ WF_vars(TakeReply)
    /\ SF_vars(SendBatch) /\ \A id \in Numbers : SF_vars(SendCommit(id))
    /\ WF_vars(DoAnchor) /\ WF_vars(Serve) /\ WF_vars(Restart)
    /\ WF_vars(DoEmit) /\ WF_vars(DoTake) /\ WF_vars(DoSettle) /\ WF_vars(DoResume)
    /\ SF_vars(DoSnapshot) /\ WF_vars(Flush) /\ WF_vars(Save) /\ WF_vars(DoComplete)

FairSpec == Spec /\ Fairness

-----------------------------------------------------------------------------
(* what is promised *)

StreamSound == up => TypeOK(stream) /\ Sound(stream) /\ (Sparse \/ Accounted(stream))

\* No answer goes beyond what the store holds, and the store never goes back.
Covered == up /\ stream.anchored => stream.committed <= store.watermark
Rises == [][lostStores' = lostStores => store'.watermark >= store.watermark]_vars

\* A batch leaves the collector's buffer only when the sink holds it for good.
NoLoss == \A id \in made : id \in buffer \/ durable[<<id, resets>>] > 0

\* With a transactional sink nothing is ever delivered twice.
ExactlyOnce == Transactional => \A x \in Contents : durable[x] <= 1

\* Once faults stop, everything produced is acknowledged.
AllAcknowledged == <>[](produced = LastBatch /\ buffer = {})

\* Reachability probes: TLC must violate each of these.
NeverResend == \A i \in 1..Len(replies) : replies[i].code # "RESEND"
NeverRetry  == \A i \in 1..Len(replies) : replies[i].code # "RETRY"
NeverAllAcked == ~(produced = LastBatch /\ buffer = {})
=============================================================================
