package api

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"cordwood/fsm/metadata"
	"cordwood/transport"
)

// mostResourcesDescribed bounds a request: an answer is much larger than the question, and a resource may be asked often.
const mostResourcesDescribed = 10000

func handleDescribeConfigs(h *Handlers, _ context.Context, r *transport.Request) transport.Response {
	req := r.Body.(*kmsg.DescribeConfigsRequest)
	resp := req.ResponseKind().(*kmsg.DescribeConfigsResponse)
	img := h.Metadata.Image()
	for _, asked := range req.Resources {
		x := kmsg.NewDescribeConfigsResponseResource()
		x.ResourceType, x.ResourceName = asked.ResourceType, asked.ResourceName
		var entries []configEntry
		err := refuse(kerr.InvalidRequest, "%d resources in one request; it may name %d", len(req.Resources), mostResourcesDescribed)
		if len(req.Resources) <= mostResourcesDescribed {
			entries, err = h.configsOf(img, &asked)
		}
		x.ErrorCode, x.ErrorMessage = code(err), sentence(err)
		for _, e := range entries {
			if len(asked.ConfigNames) == 0 || slices.Contains(asked.ConfigNames, e.name) {
				x.Configs = append(x.Configs, e.encode(req))
			}
		}
		resp.Resources = append(resp.Resources, x)
	}
	return body(resp)
}

// configEntry is one described setting of any resource.
type configEntry struct {
	name, doc string
	kind      kmsg.ConfigType
	readOnly  bool
	sensitive bool
	describedSetting
}

func (e *configEntry) encode(req *kmsg.DescribeConfigsRequest) kmsg.DescribeConfigsResponseResourceConfig {
	c := kmsg.NewDescribeConfigsResponseResourceConfig()
	c.Name, c.ReadOnly, c.IsSensitive, c.Source, c.ConfigType = e.name, e.readOnly, e.sensitive, e.source, e.kind
	c.IsDefault = e.source == kmsg.ConfigSourceDefaultConfig
	if !e.sensitive {
		c.Value = &e.value
	}
	if req.IncludeDocumentation && e.doc != "" {
		c.Documentation = &e.doc
	}
	if req.IncludeSynonyms {
		for _, s := range e.synonyms {
			y := kmsg.NewDescribeConfigsResponseResourceConfigConfigSynonym()
			y.Name, y.Source = s.name, s.source
			if !e.sensitive {
				y.Value = &s.value
			}
			c.ConfigSynonyms = append(c.ConfigSynonyms, y)
		}
	}
	return c
}

// configsOf gives all settings of a resource, by rising names.
func (h *Handlers) configsOf(img *metadata.Image, asked *kmsg.DescribeConfigsRequestResource) ([]configEntry, error) {
	switch asked.ResourceType {
	case kmsg.ConfigResourceTypeTopic:
		return h.topicConfigs(img, asked.ResourceName)
	case kmsg.ConfigResourceTypeBroker:
		if asked.ResourceName == "" { // what all brokers have in common beyond their files
			return h.brokerConfigs(img, func(e *configEntry) bool { return e.source == kmsg.ConfigSourceDynamicDefaultBrokerConfig }), nil
		}
		if err := h.namesThisNode(asked.ResourceName); err != nil {
			return nil, err
		}
		return h.brokerConfigs(img, func(*configEntry) bool { return true }), nil
	case kmsg.ConfigResourceTypeBrokerLogger: // levels are the configuration file's: there is none to describe
		return nil, h.namesThisNode(asked.ResourceName)
	default:
		return nil, resourceUnknown(asked.ResourceType)
	}
}

func resourceUnknown(kind kmsg.ConfigResourceType) error {
	return refuse(kerr.InvalidRequest, "resources of type %d have no configuration here", int8(kind))
}

// namesThisNode says whether a resource name is this node's number.
func (h *Handlers) namesThisNode(name string) error {
	n, err := strconv.ParseInt(name, 10, 32)
	if err != nil {
		return refuse(kerr.InvalidRequest, "%q is no node id", name)
	}
	if int32(n) != h.Node.ID {
		return refuse(kerr.InvalidRequest, "the configuration of node %d is asked of node %d, which knows its own only", n, h.Node.ID)
	}
	return nil
}

// describable finds a topic for questions about its settings.
func describable(img *metadata.Image, name string) (*metadata.Topic, error) {
	if err := metadata.CheckTopicName(name); err != nil {
		return nil, err
	}
	t := img.Topic(name)
	if t == nil {
		return nil, fmt.Errorf("%w: %q", metadata.ErrUnknownTopic, name)
	}
	return t, nil
}

func (h *Handlers) topicConfigs(img *metadata.Image, name string) ([]configEntry, error) {
	t, err := describable(img, name)
	if err != nil {
		return nil, err
	}
	minISR, own := h.defaultMinISR(t), recordSettings(t)
	var l []configEntry
	for _, s := range metadata.Settings() {
		l = append(l, configEntry{name: s.Name, doc: s.Doc, kind: kmsg.ConfigType(s.Type), describedSetting: h.describeSetting(&s, own, minISR)})
	}
	return l, nil
}

// defaultMinISR is min.insync.replicas of a topic where it does not set it.
func (h *Handlers) defaultMinISR(t *metadata.Topic) int32 {
	if len(t.Partitions) == 0 {
		return h.Node.TopicDefaults.Settings.MinISRFor(1)
	}
	if _, own := t.Configs[metadata.SettingMinISR]; !own {
		return t.Partitions[0].MinISR
	}
	return h.Node.TopicDefaults.Settings.MinISRFor(len(t.Partitions[0].Replicas))
}

// brokerConfigs gives this node's settings under Kafka's names: the defaults of topics, and what the node itself tells.
// All are read-only, since a node is configured by its file.
func (h *Handlers) brokerConfigs(img *metadata.Image, keep func(*configEntry) bool) []configEntry {
	replicas := min(int(h.Node.TopicDefaults.Replication), max(1, registeredBrokers(img)))
	byName := map[string]configEntry{}
	for _, s := range metadata.Settings() {
		if s.Broker == "" {
			continue
		}
		e := configEntry{name: s.Broker, doc: s.Doc, kind: kmsg.ConfigType(s.Type), readOnly: true}
		e.value, e.source, e.synonyms = s.Default, kmsg.ConfigSourceDefaultConfig, h.clusterSetting(&s, h.Node.TopicDefaults.Settings.MinISRFor(replicas))
		if len(e.synonyms) > 0 {
			e.value, e.source = e.synonyms[0].value, e.synonyms[0].source
		}
		byName[e.name] = e
	}
	if h.Node.BrokerConfigs != nil {
		for _, c := range h.Node.BrokerConfigs() {
			e := configEntry{name: c.Name, doc: c.Doc, kind: c.Type, readOnly: true, sensitive: c.Sensitive}
			e.value, e.source = c.Value, kmsg.ConfigSource(c.Source)
			e.synonyms = []synonym{{c.Name, c.Value, e.source}}
			if _, known := byName[e.name]; !known {
				byName[e.name] = e
			}
		}
	}
	var l []configEntry
	for _, e := range byName {
		if keep(&e) {
			l = append(l, e)
		}
	}
	slices.SortFunc(l, func(a, b configEntry) int { return strings.Compare(a.name, b.name) })
	return l
}
