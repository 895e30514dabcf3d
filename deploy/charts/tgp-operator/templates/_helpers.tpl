{{- define "tgp-operator.selector" -}}
app.kubernetes.io/name: tgp-operator
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "tgp-operator.labels" -}}
{{ include "tgp-operator.selector" . }}
app.kubernetes.io/part-of: tgp
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
{{- end }}

{{- define "tgp-operator.image" -}}
{{- with .Values.image -}}
{{ .repository }}{{ if .digest }}@{{ .digest }}{{ else }}:{{ .tag | default $.Chart.AppVersion }}{{ end }}
{{- end -}}
{{- end }}

{{- /* Of an address, host:port. */}}
{{- define "tgp-operator.port" -}}
{{ regexFind "[0-9]+$" . }}
{{- end }}

{{- /* The settings file: the values under settings, and those that have a place of their own. */}}
{{- define "tgp-operator.settings" -}}
{{- $settings := deepCopy .Values.settings -}}
{{- with .Values.networking.backend -}}
{{- $_ := set $settings "networking" (merge (dict "backend" .) ($settings.networking | default dict)) -}}
{{- end -}}
{{- with .Values.nodeGroups -}}
{{- $_ := set $settings "nodeGroups" . -}}
{{- end -}}
{{ toYaml $settings }}
{{- end }}

{{- define "tgp-operator.lease" -}}
{{ dig "lease" "name" "tgp-operator" .Values.settings }}
{{- end }}

{{- /* Not empty: admission policies are installed. */}}
{{- define "tgp-operator.policies" -}}
{{- if and .Values.policies.enabled (semverCompare ">=1.30-0" .Capabilities.KubeVersion.Version) -}}
true
{{- end -}}
{{- end }}
