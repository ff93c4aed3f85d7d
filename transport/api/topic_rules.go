package api

import (
	"sync"

	"cordwood/fsm/metadata"
	"cordwood/logstore/record"
)

// topicConfigs keeps the typed settings of topics that have settings of their own: reading them from text for every
// batch would cost more than checking the batch.
type topicConfigs struct {
	mu   sync.RWMutex
	byID map[record.TopicID]cachedConfig
}

type cachedConfig struct {
	topic  *metadata.Topic // of which config was made; an image's values never change
	config metadata.TopicConfig
}

// config gives what is in force for a topic.
func (h *Handlers) config(img *metadata.Image, t *metadata.Topic) metadata.TopicConfig {
	if len(t.Configs) == 0 {
		return h.Node.TopicDefaults.Settings.Effective(t)
	}
	c := &h.configs
	c.mu.RLock()
	e, ok := c.byID[t.ID]
	c.mu.RUnlock()
	if ok && e.topic == t {
		return e.config
	}
	e = cachedConfig{t, h.Node.TopicDefaults.Settings.Effective(t)}
	c.mu.Lock()
	if c.byID == nil || len(c.byID) > 2*img.TopicCount()+16 {
		c.byID = map[record.TopicID]cachedConfig{} // most are of deleted topics: begin again
	}
	c.byID[t.ID] = e
	c.mu.Unlock()
	return e.config
}
