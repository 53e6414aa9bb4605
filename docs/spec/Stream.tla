------------------------------- MODULE Stream -------------------------------
(***************************************************************************)
(* One collector's stream inside the ingress, as a pure state machine.     *)
(*                                                                         *)
(* A collector numbers its batches n, n+1, n+2, ... and may forget a batch *)
(* only when the ingress acknowledges a watermark at or above its number.  *)
(* Every operator takes a stream s and yields the next stream; those that  *)
(* answer the collector come with a ...Reply operator of the same          *)
(* arguments, evaluated in the state before the step.                      *)
(***************************************************************************)
EXTENDS Naturals, Sequences, FiniteSets

CONSTANTS QueueCapacity,  \* batches the stream may hold undelivered
          Ahead,          \* how far above the watermark a number may be
          MaxCheckpoints, \* checkpoints that may be open at once
          MaxNacks,       \* failed deliveries in a row before the stream halts
          History,        \* committed batches whose digest is remembered
          KeepPayloads,   \* TRUE: a snapshot carries the queued batches
          Sparse          \* TRUE: numbers may have gaps; the collector must then
                          \* re-send all it holds, in order, on each connection

ASSUME /\ {QueueCapacity, MaxNacks, Ahead, MaxCheckpoints} \subseteq Nat \ {0}
       /\ History \in Nat /\ {KeepPayloads, Sparse} \subseteq BOOLEAN

Max(a, b)  == IF a >= b THEN a ELSE b
Min(S)     == CHOOSE m \in S : \A n \in S : m <= n
Take(q, n) == SubSeq(q, 1, n)
Drop(q, n) == SubSeq(q, n + 1, Len(q))
Ids(q)     == {q[i].id : i \in 1..Len(q)}          \* q: a sequence of batches
Only(f, S) == [x \in DOMAIN f \cap S |-> f[x]]
Nothing    == [x \in {} |-> 0]

(* epoch        restarts survived                                          *)
(* anchored     the collector's first batch number is known, and stored    *)
(* committed    watermark of the last completed checkpoint                 *)
(* received     highest batch accepted                                     *)
(* queue        batches accepted, waiting to be emitted                    *)
(* inflight     batches emitted to the sink, outcome unknown               *)
(* settled      batches the sink took, not under a completed checkpoint    *)
(* missing      numbers accepted or skipped whose payload is not here      *)
(* digests      number -> digest of the body accepted under it             *)
(* checkpoints  open checkpoint -> watermark and settled batches it covers *)
(* last         highest checkpoint number used in this life                *)
(* nacks        deliveries failed in a row                                 *)
(* halted       gave up on the sink: nothing more is taken or emitted      *)
Fresh == [epoch |-> 0, anchored |-> FALSE, committed |-> 0, received |-> 0,
          queue |-> <<>>, inflight |-> <<>>, settled |-> <<>>, missing |-> {}, digests |-> Nothing,
          checkpoints |-> Nothing, last |-> 0, nacks |-> 0, halted |-> FALSE]

Unfinished(s) == Ids(s.queue) \cup Ids(s.inflight) \cup s.missing

\* Everything at or below the watermark has been delivered to the sink.
Watermark(s) == IF Unfinished(s) = {} THEN s.received ELSE Min(Unfinished(s)) - 1

\* A batch is held until a completed checkpoint covers it: the sink may lose what it took.
Held(s) == Len(s.queue) + Len(s.inflight) + Len(s.settled)
Full(s) == Held(s) >= QueueCapacity

\* Room for this number: what is held, and what is remembered, stays bounded. Numbers with gaps
\* by nature are counted, not measured; a missing number always has room to be remembered.
Uncommitted(s) == {x \in DOMAIN s.digests : x > s.committed}
Near(s, id) == \/ id \in s.missing
               \/ IF Sparse THEN Cardinality(Uncommitted(s)) < Ahead ELSE id <= s.committed + Ahead
Room(s, id) == ~s.halted /\ ~Full(s) /\ Near(s, id)

-----------------------------------------------------------------------------
(* anchor: where a collector begins. It must be in the store before the    *)
(* first RECEIVED: after a crash it tells a lost batch from one never sent. *)

CanAnchor(s) == ~s.anchored

Anchor(s, id) == [s EXCEPT !.anchored = TRUE, !.received = id - 1, !.committed = id - 1]

\* rebase: the collector says the lowest number it still holds. What is missing
\* below it will never come: it is lost, and the ingress must say so aloud.
Lost(s, first) == {id \in s.missing : id < first} \cup ((s.received + 1)..(first - 1))

Rebase(s, first) == [s EXCEPT !.received = Max(@, first - 1),
                              !.missing  = {id \in @ : id >= first}]

-----------------------------------------------------------------------------
(* receive *)

Skipped(s, id) == IF Sparse THEN {} ELSE (s.received + 1)..(id - 1)

Wanted(s, id) == id > s.received \/ id \in s.missing

ReceiveReply(s, b) ==
    CASE Wanted(s, b.id)               -> IF Room(s, b.id) THEN "RECEIVED" ELSE "QUEUE_FULL"
      [] b.id \notin DOMAIN s.digests  -> "STALE"      \* never accepted, or too long ago to tell
      [] s.digests[b.id] # b.body      -> "CONFLICT"   \* the number is taken
      [] OTHER                         -> "RECEIVED"   \* sent again: once is enough

Receive(s, b) ==
    IF ~Wanted(s, b.id) \/ ~Room(s, b.id) THEN s
    ELSE [s EXCEPT !.queue    = Append(@, b),
                   !.received = Max(@, b.id),
                   !.missing  = (@ \cup Skipped(s, b.id)) \ {b.id},
                   !.digests  = [x \in DOMAIN @ \cup {b.id} |->
                                    IF x = b.id THEN b.body ELSE @[x]]]

\* skip: the ingress refused this number's batch for good, and the collector gives it up. It is
\* missing no more and never comes: it is lost, and the ingress must say so aloud.
CanSkip(s, id) == Wanted(s, id) /\ Near(s, id)

Skip(s, id) == [s EXCEPT !.received = Max(@, id), !.missing = (@ \cup Skipped(s, id)) \ {id}]

-----------------------------------------------------------------------------
(* emit and settle: at most one delivery is in flight *)

CanEmit(s, n) == ~s.halted /\ s.inflight = <<>> /\ n \in 1..Len(s.queue)

Emit(s, n) == [s EXCEPT !.inflight = Take(s.queue, n), !.queue = Drop(s.queue, n)]

CanSettle(s, n) == s.inflight # <<>> /\ n \in 0..Len(s.inflight)

\* The sink took the first n batches in flight; the rest go back in front.
Settle(s, n) ==
    LET failed == IF n = 0 THEN s.nacks + 1 ELSE 0
    IN  [s EXCEPT !.inflight = <<>>,
                  !.settled  = @ \o Take(s.inflight, n),
                  !.queue    = Drop(s.inflight, n) \o @,
                  !.nacks    = failed,
                  !.halted   = failed >= MaxNacks]

\* The sink lost what it took since the barrier of checkpoint c, which may still complete; c is 0
\* when none may, and then all it took since the last completed one is lost (a rollback, a delivery
\* whose outcome is unknown, a failed commit). What is lost is delivered again; checkpoints after c
\* are over. Without c, the rows of a checkpoint that completes after all are delivered twice.
Kept(s, c) == IF c \in DOMAIN s.checkpoints THEN s.checkpoints[c].settled ELSE 0

\* A checkpoint forgotten at the bound, or aborted, can't be kept: its outcome must be known first.
CanRollback(s, c) == /\ c = 0 \/ c \in DOMAIN s.checkpoints
                     /\ Len(s.settled) > Kept(s, c) \/ s.inflight # <<>>

Rollback(s, c) == [s EXCEPT !.queue = Drop(s.settled, Kept(s, c)) \o s.inflight \o @,
                            !.inflight = <<>>,
                            !.settled = Take(@, Kept(s, c)),
                            !.checkpoints = Only(@, {d \in DOMAIN @ : d <= c})]

\* An operator, or time, gives the sink another chance.
CanResume(s) == s.halted

Resume(s) == [s EXCEPT !.nacks = 0, !.halted = FALSE]

-----------------------------------------------------------------------------
(* snapshot, complete, abort *)

\* A number is used once: a late notice must not complete another checkpoint. A halted stream is
\* snapshotted like any other: what it delivered before it halted is in the sink's transaction.
CanSnapshot(s, c) == s.anchored /\ c > s.last

\* At the bound the oldest open checkpoint is forgotten, as Abort would: a host that loses the
\* notices of some checkpoints goes on, and the next one that completes covers their batches too.
Still(s) == IF Cardinality(DOMAIN s.checkpoints) < MaxCheckpoints THEN DOMAIN s.checkpoints
            ELSE DOMAIN s.checkpoints \ {Min(DOMAIN s.checkpoints)}

Snapshot(s, c) ==
    [s EXCEPT !.last = c,
              !.checkpoints = [d \in Still(s) \cup {c} |->
                  IF d = c THEN [watermark |-> Watermark(s), settled |-> Len(s.settled)] ELSE @[d]]]

Remembered(s, w) == Only(s.digests, {x \in DOMAIN s.digests : x + History > w})

\* What a checkpoint stores; a batch in flight counts as not delivered.
Image(s) ==
    LET kept == IF KeepPayloads THEN s.inflight \o s.queue ELSE <<>>
    IN  [epoch     |-> s.epoch,
         anchored  |-> s.anchored,
         watermark |-> IF s.anchored THEN Watermark(s) ELSE 0,
         received  |-> s.received,
         queue     |-> kept,
         missing   |-> Unfinished(s) \ Ids(kept),
         digests   |-> Remembered(s, Watermark(s))]

\* There is something to store, or a watermark that only a completed checkpoint may raise: an image
\* can be in the store whose checkpoint was given up, and its last acknowledgement must come.
Dirty(s, stored) == Image(s) # [stored EXCEPT !.epoch = s.epoch] \/ Watermark(s) > s.committed

\* Everything settled before Snapshot(c) is durable, what older checkpoints held included, aborted ones too.
Complete(s, c) ==
    IF c \notin DOMAIN s.checkpoints THEN s
    ELSE LET w == Max(s.committed, s.checkpoints[c].watermark)
             n == s.checkpoints[c].settled
         IN  [s EXCEPT !.committed   = w,
                       !.settled     = Drop(@, n),
                       !.digests     = Remembered(s, w),
                       !.checkpoints = [d \in {x \in DOMAIN @ : x > c} |->
                           [watermark |-> @[d].watermark, settled |-> @[d].settled - n]]]

Abort(s, c) == [s EXCEPT !.checkpoints = Only(@, DOMAIN @ \ {c})]

-----------------------------------------------------------------------------
(* restore: what no longer fits the queue has to be sent again *)

Restore(image) ==
    LET fits == IF Len(image.queue) <= QueueCapacity THEN image.queue
                ELSE Take(image.queue, QueueCapacity)
    IN  [epoch       |-> image.epoch + 1,
         anchored    |-> image.anchored,
         committed   |-> image.watermark,
         received    |-> image.received,
         queue       |-> fits,
         inflight    |-> <<>>,
         settled     |-> <<>>,
         missing     |-> image.missing \cup (Ids(image.queue) \ Ids(fits)),
         digests     |-> image.digests,
         checkpoints |-> Nothing,
         last        |-> 0,
         nacks       |-> 0,
         halted      |-> FALSE]

-----------------------------------------------------------------------------
(* commit: a question, it changes nothing *)

CommitReply(s, id) ==
    CASE id <= s.committed -> "ACK"       \* with the watermark s.committed
      [] id \in s.missing  -> "RESEND"    \* was accepted, its payload is gone
      [] id > s.received   -> "RETRY"     \* never seen: send it
      [] OTHER             -> "PENDING"   \* not yet under a completed checkpoint

-----------------------------------------------------------------------------
(* what holds of every reachable stream *)

TypeOK(s) ==
    /\ s.epoch \in Nat /\ s.committed \in Nat /\ s.received \in Nat /\ s.nacks \in Nat
    /\ s.halted \in BOOLEAN /\ s.anchored \in BOOLEAN
    /\ Unfinished(s) \subseteq Nat \ {0}

Sound(s) ==
    /\ s.committed <= Watermark(s) /\ Watermark(s) <= s.received
    /\ \A c \in DOMAIN s.checkpoints : /\ s.checkpoints[c].watermark <= Watermark(s)
                                       /\ s.checkpoints[c].settled <= Len(s.settled) /\ c <= s.last
    /\ Held(s) <= QueueCapacity
    /\ \A i \in 1..Len(s.settled) : s.settled[i].id > s.committed
    /\ Cardinality(Ids(s.queue) \cup Ids(s.inflight)) = Len(s.queue) + Len(s.inflight)
    /\ s.missing \cap (Ids(s.queue) \cup Ids(s.inflight)) = {}
    /\ \A id \in Unfinished(s) : s.committed < id /\ id <= s.received
    /\ Cardinality(DOMAIN s.digests) <= History + Ahead
    /\ Cardinality(DOMAIN s.checkpoints) <= MaxCheckpoints

\* Without gaps by nature and without losses, every number is here or asked for.
Accounted(s) == \A id \in (s.committed + 1)..s.received :
                    id \in s.missing \/ id \in DOMAIN s.digests
=============================================================================
