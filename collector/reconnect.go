package collector

import (
	"context"
	"errors"
	"time"
)

// attempts is what is remembered from one connection to the next.
type attempts struct {
	failures int // in a row, without progress
	rejected time.Time
	ghosts   int // own connections that are over here, and whose HELLO the ingress may still hear
}

// mostGhosts bounds how often a client that is fenced comes again.
const mostGhosts = 16

// fenced tells whether it was another process that took over. A HELLO of an own connection that broke may come late and
// take the seat from the newest one, once each.
func (a *attempts) fenced(err error) bool {
	if !errors.Is(err, ErrFenced) {
		a.ghosts = min(a.ghosts+1, mostGhosts)
		return false
	}
	a.ghosts--
	return a.ghosts < 0
}

// run connects again and again, while there is something to send.
func (c *Client) run(ctx context.Context) {
	defer close(c.over)
	defer c.ended(ctx)
	past := attempts{ghosts: 1} // of the process before
	for c.pending(ctx) {
		before := c.watermark()
		err := c.converse(ctx)
		if ctx.Err() != nil || c.isClosing() {
			return
		}
		if past.failures++; c.watermark() > before {
			past.failures = 1
		}
		if err = c.judge(err, &past); err != nil {
			c.fail(err)
			return
		}
	}
}

// judge decides what the end of a connection means for the next one, and waits for it. An error is why there is none.
func (c *Client) judge(err error, past *attempts) error {
	switch {
	case !errors.Is(err, ErrRejected):
		past.rejected = time.Time{}
	case past.rejected.IsZero():
		past.rejected = time.Now()
	}
	if past.fenced(err) || fatal(err) || !past.rejected.IsZero() && time.Since(past.rejected) >= c.o.Rejected {
		return err
	}
	if errors.Is(err, ErrRetired) || errors.Is(err, ErrForgot) {
		if bad := c.renew(err); bad != nil {
			return bad
		}
	}
	c.mu.Lock()
	held, away := c.holds(), c.core.away()
	c.mu.Unlock()
	if !held {
		return nil // nobody needs a connection now
	}
	wait := max(c.o.Backoff.Wait(past.failures, c.o.Jitter()), away)
	c.o.Log.Warn("connection ended: what is not acknowledged will be sent again", "error", err.Error(), "again", wait.String())
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-c.closing:
	case <-c.life.Done():
	}
	return nil
}

// renew begins anew with an instance of its own: what is held gets new numbers.
func (c *Client) renew(why error) error {
	var instance string
	var err error
	if c.o.Journal != nil {
		if err = c.o.Journal.Renew(); err == nil {
			instance = c.o.Journal.Numbers().Instance
		}
	} else {
		instance, err = newInstance(c.o.Random)
	}
	if full(err) {
		c.o.Log.Warn("no room on the disk for a new instance: trying again", "error", err.Error())
		return nil
	}
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.core.anew(instance)
	c.renewals++
	c.o.Log.Error("the numbers of this buffer are taken: all that is not acknowledged is numbered and sent anew, and what the ingress "+
		"has of it already is there twice", "reason", why.Error(), "batches", c.next-1-c.core.Watermark(), "instance", instance)
	return nil
}

func (c *Client) isClosing() bool {
	select {
	case <-c.closing:
		return true
	default:
		return false
	}
}

// pending waits until something is held; false: the client has ended.
func (c *Client) pending(ctx context.Context) bool {
	for {
		c.mu.Lock()
		held := c.holds()
		c.mu.Unlock()
		if ctx.Err() != nil || c.isClosing() {
			return false
		}
		if held {
			return true
		}
		select {
		case <-c.wake:
		case <-c.closing:
		case <-ctx.Done():
		}
	}
}
