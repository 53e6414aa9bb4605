----------------------------- MODULE StreamGraph -----------------------------
(* Every step of a small stream, one JSON object a step, for replay in Go. *)
EXTENDS Stream, TLC, Json

CONSTANTS LastBatch, Bodies, LastCheckpoint, LastEpoch

VARIABLES s, image, step
vars == <<s, image, step>>

Batches == [id : 1..LastBatch, body : Bodies]

Init == s = Fresh /\ image = Image(Fresh) /\ step = [action |-> "Init"]

Do(action, next) == s' = next /\ image' = image /\ step' = action

Next ==
  \/ \E id \in 1..LastBatch : CanAnchor(s) /\ Do([action |-> "Anchor", id |-> id], Anchor(s, id))
  \/ \E first \in 1..(LastBatch + 1) : s.anchored /\
        Do([action |-> "Rebase", first |-> first, lost |-> Lost(s, first)], Rebase(s, first))
  \/ \E b \in Batches : s.anchored /\
        Do([action |-> "Receive", batch |-> b, reply |-> ReceiveReply(s, b)], Receive(s, b))
  \/ \E id \in 1..LastBatch : s.anchored /\ CanSkip(s, id) /\ Do([action |-> "Skip", id |-> id], Skip(s, id))
  \/ \E n \in 1..QueueCapacity : CanEmit(s, n) /\ Do([action |-> "Emit", n |-> n], Emit(s, n))
  \/ \E n \in 0..QueueCapacity : CanSettle(s, n) /\ Do([action |-> "Settle", n |-> n], Settle(s, n))
  \/ CanResume(s) /\ Do([action |-> "Resume"], Resume(s))
  \/ \E c \in 0..LastCheckpoint : CanRollback(s, c) /\
        Do([action |-> "Rollback", checkpoint |-> c], Rollback(s, c))
  \/ \E c \in 1..LastCheckpoint : /\ CanSnapshot(s, c)
                                  /\ s' = Snapshot(s, c) /\ image' = Image(s)
                                  /\ step' = [action |-> "Snapshot", checkpoint |-> c]
  \/ \E c \in 1..LastCheckpoint : Do([action |-> "Complete", checkpoint |-> c], Complete(s, c))
  \/ \E c \in 1..LastCheckpoint : Do([action |-> "Abort", checkpoint |-> c], Abort(s, c))
  \/ /\ s.epoch < LastEpoch /\ Do([action |-> "Restore"], Restore(image))
  \/ \E id \in 1..(LastBatch + 1) : Do([action |-> "Commit", id |-> id, reply |-> CommitReply(s, id)], s)

Spec == Init /\ [][Next]_vars
View == <<s, image>>
Ok == TypeOK(s) /\ (s.anchored => Sound(s))

\* Functions as sets of pairs, so that JSON can't show one as a list.
Pairs(f)  == {<<x, f[x]>> : x \in DOMAIN f}
Plain(r)  == [r EXCEPT !.digests = Pairs(@), !.checkpoints = Pairs(@)]
PlainImage(i) == [i EXCEPT !.digests = Pairs(@)]
Export == PrintT(ToJson([from |-> Plain(s), image |-> PlainImage(image), step |-> step',
                         to |-> Plain(s'), toImage |-> PlainImage(image')]))
==============================================================================
