package mutants

import "slices"

// all are the mutants, in the order of the table.
func all() []mutant { return slices.Concat(published, machine, checkpoints, connections, hosts, seats) }

// The faults of the published design, as far as they are in the machine: docs/track-record.md has them by number.
var published = []mutant{
	{"P1 watermark moved by batches", "until the first checkpoint each batch moves the watermark to the number before it", []edit{
		{"statemachine/receive.go", "	s.hold(b)\n", "	if s.last == 0 && s.committed < b.ID-1 {\n		s.committed = b.ID - 1\n	}\n	s.hold(b)\n"},
	}},
	{"P2 anchor from the first batch", "the first batch that comes is taken for the beginning", []edit{
		{"model/explore/server.go", "e.stream.Anchor(uint64(w.first))", "e.stream.Anchor(uint64(e.from.wire[0].id()))"},
		{"server/request.go", "c.server.anchor(c.stream)", "c.server.anchorAt(c.stream, id)"},
		{"server/stream.go", "func (s *Server) anchor(st *stream) error {\n", "func (s *Server) anchor(st *stream) error { return s.anchorAt(st, 1) }\n\nfunc (s *Server) anchorAt(st *stream, first uint64) error {\n"},
		{"server/stream.go", "		first := uint64(1)\n", ""},
	}},
	{"P3 cumulative ACK after a reset", "a connection is told the watermark whatever it has sent", []edit{
		{"statemachine/session.go", "	reply := c.answer(s, id)\n	if reply != Ack {\n		return reply, 0\n	}\n", "	if id <= s.committed {\n		return Ack, s.committed\n	}\n	reply := c.answer(s, id)\n	if reply != Ack {\n		return reply, 0\n	}\n"},
	}},
	{"P4 RESEND is never reached", "a batch that is not here any more is answered PENDING", []edit{
		{"statemachine/commit.go", "	case s.missing.contains(id):\n		return Resend, 0 // was accepted or skipped, its payload is not here\n", ""},
	}},
	{"P5 duplicate queued", "a batch that is here is taken again when it comes again", []edit{
		{"statemachine/receive.go", "return id > s.received && id <= MaxNumber || s.missing.contains(id)", "return id > s.committed && id <= MaxNumber"},
	}},
	{"P7 gap never asked for", "skipped numbers are not missing: the watermark goes over them", []edit{
		{"statemachine/receive.go", "			s.missing.add(s.received+1, b.ID-1)\n", ""},
	}},
	{"P8 queued and not counted", "a batch that was missing stays missing when it has come", []edit{
		{"statemachine/receive.go", "		s.missing.remove(b.ID)\n", ""},
	}},
	{"P9 overflow refused on restore", "an image with more batches than the queue has room for starts no stream", []edit{
		{"statemachine/restore.go", "	s := New(limits)\n", "	s := New(limits)\n	if len(img.Queue) > limits.QueueCapacity {\n		return nil, fmt.Errorf(\"too many batches\")\n	}\n"},
	}},
	{"P11 open checkpoints kept", "checkpoints that never complete are remembered for ever", []edit{
		{"statemachine/checkpoint.go", "		s.marks = slices.Delete(s.marks, 0, 1)\n", ""},
	}},
}

// What the specification demands of a stream.
var machine = []mutant{
	{"no Ahead", "any number above the watermark is taken", []edit{
		{"statemachine/receive.go", "	return id-s.committed <= s.limits.Ahead\n", "	return true\n"},
	}},
	{"no bound on the queue", "a full queue takes more", []edit{
		{"statemachine/receive.go", "return !s.halted && !s.Full() && (", "return !s.halted && ("},
	}},
	{"digest ignored", "a number used again for other bytes is answered RECEIVED", []edit{
		{"statemachine/receive.go", "	case sum != digest:\n", "	case sum != digest && sum == 0 && digest == 0:\n"},
	}},
	{"history shorter than said", "digests are forgotten before History says so", []edit{
		{"statemachine/checkpoint.go", "	if h := uint64(s.limits.History); w > h {\n", "	if h := uint64(s.limits.History) / 2; w > h {\n"},
	}},
	{"history shorter than the window", "limits are taken with which a batch sent again would be STALE for ever", []edit{
		{"statemachine/limits.go", "	if uint64(l.History) < l.Ahead {\n", "	if uint64(l.History) < l.Ahead/2 {\n"},
	}},
	{"tail of a partial settle dropped", "what the sink did not take counts as taken", []edit{
		{"statemachine/deliver.go", "	s.endDelivery()\n	s.settled += n\n", "	taken := s.inflight\n	s.endDelivery()\n	if n == 0 {\n		taken = 0\n	}\n	s.settled += taken\n"},
	}},
	{"settled forgotten on a rollback", "what the sink lost again is not delivered again", []edit{
		{"statemachine/deliver.go", "	s.settled, _ = s.kept(c)\n", "	s.release(s.settled)\n"},
	}},
	{"rollback of a kept checkpoint", "a rollback gives back what a checkpoint that may still complete covers", []edit{
		{"statemachine/deliver.go", "	s.settled, _ = s.kept(c)\n", "	s.settled = 0\n"},
	}},
	{"failed deliveries never halt", "the stream goes on however often the sink refuses", []edit{
		{"statemachine/deliver.go", "	s.halted = s.nacks >= s.limits.MaxNacks\n", ""},
	}},
	{"rebase keeps what is lost", "numbers that nobody holds any more stay missing", []edit{
		{"statemachine/anchor.go", "		s.missing.removeBelow(first)\n", ""},
	}},
	{"rebase drops in silence", "Lost does not name what a rebase gives up", []edit{
		{"statemachine/anchor.go", "		lost.add(s.received+1, first-1)\n", ""},
	}},
}

// What the specification demands of checkpoints, images and restarts.
var checkpoints = []mutant{
	{"watermark read at completion", "Complete commits the watermark as it is then", []edit{
		{"statemachine/checkpoint.go", "s.committed = max(s.committed, m.Watermark)", "s.committed = max(s.committed, s.Watermark())"},
	}},
	{"checkpoint number used twice", "a number that was used in this life may begin another checkpoint", []edit{
		{"statemachine/checkpoint.go", "return s.anchored && c > s.last", "return s.anchored && c >= s.last"},
	}},
	{"older checkpoint lowers the watermark", "older checkpoints stay open, and a late notice takes the watermark back", []edit{
		{"statemachine/checkpoint.go", "	s.marks = slices.Delete(s.marks, 0, i+1)\n", "	s.marks = slices.Delete(s.marks, i, i+1)\n"},
		{"statemachine/checkpoint.go", "		s.marks[j].Settled -= m.Settled\n", "		s.marks[j].Settled = max(0, s.marks[j].Settled-m.Settled)\n"},
		{"statemachine/checkpoint.go", "s.committed = max(s.committed, m.Watermark)", "s.committed = m.Watermark"},
	}},
	{"dirty only when rows were written", "a change without a delivery is not stored", []edit{
		{"statemachine/checkpoint.go", "return s.position().version != s.stored.version", "return s.position().delivered != s.stored.delivered"},
	}},
	{"halted stream left out", "a stream that is halted takes part in no checkpoint", []edit{
		{"statemachine/checkpoint.go", "return s.anchored && c > s.last", "return s.anchored && c > s.last && !s.halted"},
		{"server/checkpoint.go", "|| !st.machine.Dirty()", "|| !st.machine.Dirty() || st.machine.Halted()"},
	}},
	{"missing not in the image", "an image does not say which numbers are missing", []edit{
		{"statemachine/checkpoint.go", "		return s.missing\n", "		return nil\n"},
		{"statemachine/checkpoint.go", "	s.scratch = append(s.scratch[:0], s.missing...)\n", "	s.scratch = s.scratch[:0]\n"},
	}},
	{"inflight not in the image", "an image leaves out what is being delivered", []edit{
		{"statemachine/checkpoint.go", "		img.Queue = append(img.Queue, s.undelivered()...)\n", "		img.Queue = append(img.Queue, s.undelivered()[s.inflight:]...)\n"},
		{"statemachine/checkpoint.go", "	rest := s.undelivered()\n", "	rest := s.undelivered()[s.inflight:]\n"},
	}},
	{"inflight counts as delivered", "the watermark goes over what is being delivered", []edit{
		{"statemachine/stream.go", "	for _, b := range s.undelivered() {\n		if !any", "	for _, b := range s.undelivered()[s.inflight:] {\n		if !any"},
	}},
	{"overflow on restore dropped", "what does not fit the queue after a restart is not missing", []edit{
		{"statemachine/restore.go", "		s.missing.add(b.ID, b.ID)\n", "		_ = b\n"},
	}},
	{"delta forgets a field", "a delta does not carry the missing numbers", []edit{
		{"statemachine/delta.go", "	dst = appendRanges(dst, s.unkept())\n", "	dst = append(dst, 0)\n"},
	}},
	{"delta forgets to forget", "a delta does not say which digests are dropped", []edit{
		{"statemachine/delta.go", "s.epoch, watermark, s.received, s.forgotten(watermark))", "s.epoch, watermark, s.received, 0)"},
	}},
	{"image of another stream", "Restore takes an image that no stream can have left", []edit{
		{"statemachine/restore.go", "	if img.Watermark+1 != lowest {\n", "	if img.Watermark > lowest {\n"},
	}},
}

// What the specification demands of a connection.
var connections = []mutant{
	{"ACK without proof", "an ACK does not need a batch that was received on this connection", []edit{
		{"statemachine/session.go", "	if id > s.committed || id <= c.named {\n", "	if id > 0 {\n"},
	}},
	{"uncapped ACK", "an ACK carries the watermark though the connection has sent less", []edit{
		{"statemachine/session.go", "	watermark := min(s.committed, c.named)\n", "	watermark := s.committed\n"},
	}},
	{"no RETRY above a refused number", "what was sent behind a refused batch is taken", []edit{
		{"statemachine/session.go", "	if !c.blocked(b.ID) {\n", "	if b.ID > 0 {\n"},
	}},
	{"one number for the refused set", "only the lowest refused number is remembered", []edit{
		{"statemachine/session.go", "	if id > c.told {\n", "	if id > c.told && (len(c.refused) == 0 || id < c.refused[0].First) {\n		c.refused = c.refused[:0]\n"},
	}},
	{"COMMIT above a refused number", "a number above a refused one may be acknowledged", []edit{
		{"statemachine/session.go", "	if len(c.refused) > 0 && c.refused[0].First <= id {\n		return Retry\n	}\n", ""},
		{"statemachine/session.go", "		watermark = min(watermark, c.refused[0].First-1)\n", ""},
	}},
	{"refusals never end", "what the collector was told to forget holds back what comes after", []edit{
		{"statemachine/session.go", "	if id > c.told {\n", "	if id > 0 {\n"},
	}},
}

// What a host owes the machine; where System.tla has the step, the explorer's world makes the same mistake.
var hosts = []mutant{
	{"ACK before the store is written", "the checkpoint completes before the images are stored", []edit{
		{"model/explore/checkpoint.go", "	if !e.from.up || e.from.phase != saved {\n", "	if !e.from.up || e.from.phase != sealed {\n"},
		{"server/checkpoint.go", "		if err := p.persist(ctx, next); err != nil {\n", "		for _, st := range next.streams {\n			st.complete(next.checkpoint.Number, time.Now(), &p.server.memory)\n		}\n		if err := p.persist(ctx, next); err != nil {\n"},
	}},
	{"store before the sink", "the images are stored before the sink has committed", []edit{
		{"server/checkpoint.go", "	err := p.attempt(ctx, \"sink\", func() error { return next.txn.Commit(ctx) })\n	if err != nil {\n		return fmt.Errorf(\"sink: %w\", err)\n	}\n	p.progress.failed(nil)\n	err = p.attempt(ctx, \"store\", func() error { return p.server.options.Store.Save(ctx, &next.checkpoint) })\n",
			"	err := p.attempt(ctx, \"store\", func() error { return p.server.options.Store.Save(ctx, &next.checkpoint) })\n	if err != nil {\n		return fmt.Errorf(\"sink: %w\", err)\n	}\n	p.progress.failed(nil)\n	err = p.attempt(ctx, \"sink\", func() error { return next.txn.Commit(ctx) })\n"},
	}},
	{"anchor not stored", "the first number is not stored before the first RECEIVED", []edit{
		{"model/explore/server.go", "	w.store = e.streams.at(w.stream).image\n", ""},
		{"server/stream.go", "s.options.Store.Anchor(s.life, change)", "error(nil)"},
		{"server/stream.go", "	change := store.Change{Collector: st.name, Delta: st.machine.AppendDelta(nil)}\n", ""},
	}},
	{"barrier missing", "the sink's transaction is not sealed in the instant of the snapshot", []edit{
		{"model/explore/checkpoint.go", "	w.sealed.add(&w.open)\n	w.open = bag{}\n	e.keepStream(w)\n", "	e.keepStream(w)\n"},
		{"server/checkpoint.go", "	var err error\n	if next.checkpoint.Position", "	err := p.round(ctx)\n	if err != nil {\n		return err\n	}\n	if next.checkpoint.Position"},
	}},
	{"snapshot in mid-delivery", "a barrier is taken while the sink has a part of a delivery", []edit{
		{"model/explore/checkpoint.go", " || e.from.taking > 0 || ", " || "},
		{"server/deliver.go", "	p.settle(st, taken, err)\n	return nil\n", "	if p.due() {\n		if err := p.barrier(ctx); err != nil {\n			return err\n		}\n	}\n	p.settle(st, taken, err)\n	return nil\n"},
	}},
	{"two connections in one seat", "a second connection of a collector is let in", []edit{
		{"server/stream.go", "	case <-timer.C:\n		return false\n", "	case <-timer.C:\n		return true\n"},
		{"server/stream.go", "	st.sits(nil)\n	<-st.taken\n", "	st.sits(nil)\n	select {\n	case <-st.taken:\n	default:\n	}\n"},
	}},
	{"refusals of the host not told", "a batch that the host refuses is not in the refused set", []edit{
		{"server/request.go", "	c.refuse(id)\n	return c.answered", "	return c.answered"},
	}},
	{"position not stored", "the checkpoint does not say where the sink stands", []edit{
		{"server/checkpoint.go", "	if next.checkpoint.Position, err = p.txn.Seal(); err != nil {\n", "	if _, err = p.txn.Seal(); err != nil {\n"},
	}},
}
