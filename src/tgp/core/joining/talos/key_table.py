"""The table of keys that workers of Talos 1.10 to 1.14 may have in configs, in the notation of keys.py.

Names of keys as found in the releases; tests compare them with each release's own validator. What
only control planes have is listed by its kind alone: a worker must leave it out.
"""

CLASSIC = """
v1alpha1:
  debug? persist? version
  cluster:
    aescbcEncryptionSecret allowSchedulingOnControlPlanes? allowSchedulingOnMasters? clusterName
    extraManifestHeaders{} extraManifests[] id secret secretboxEncryptionSecret token
    acceptedCAs[]:
      crt=base64
    adminKubeconfig:
      certLifetime~
    aggregatorCA:
      crt=base64 key=base64
    apiServer:
      auditPolicy{}* certSANs[] disablePodSecurityPolicy? env{} extraArgs{}@-12 extraArgs{}|@13+ image
      admissionControl[]:
        configuration{}* name
      authorizationConfig[]:
        name type webhook{}*
      extraVolumes[]:
        hostPath mountPath readonly?
      resources:
        limits{}* requests{}*
    ca:
      crt=base64 key=base64
    controlPlane:
      endpoint=url localAPIServerPort#
    controllerManager:
      env{} extraArgs{}@-12 extraArgs{}|@13+ image
      extraVolumes[]:
        hostPath mountPath readonly?
      resources:
        limits{}* requests{}*
    coreDNS:
      disabled? image
    discovery:
      enabled?
      registries:
        kubernetes:
          disabled?
        service:
          disabled? endpoint
    etcd:
      advertisedSubnets[] extraArgs{}@-12 extraArgs{}|@13+ image listenSubnets[] subnet
      ca:
        crt=base64 key=base64
    externalCloudProvider:
      enabled? manifests[]
    inlineManifests[]:
      contents name
    network:
      dnsDomain podSubnets[] serviceSubnets[]
      cni:
        name urls[]
        flannel:
          extraArgs[] kubeNetworkPoliciesEnabled?@13+
    proxy:
      disabled? extraArgs{}@-12 extraArgs{}|@13+ image mode
    scheduler:
      config{}* env{} extraArgs{}@-12 extraArgs{}|@13+ image
      extraVolumes[]:
        hostPath mountPath readonly?
      resources:
        limits{}* requests{}*
    serviceAccount:
      key=base64
  machine:
    baseRuntimeSpecOverrides{}* certSANs[] env{} nodeAnnotations{} nodeLabels{} nodeTaints{} pods[]{}* sysctls{}
    sysfs{} token type
    acceptedCAs[]:
      crt=base64
    ca:
      crt=base64 key=base64
    controlPlane:
      controllerManager:
        disabled?
      scheduler:
        disabled?
    disks[]:
      device
      partitions[]:
        mountpoint size=size
    features:
      apidCheckExtKeyUsage? diskQuotaSupport? nodeAddressSortAlgorithm rbac? stableHostname?
      hostDNS:
        enabled? forwardKubeDNSToHost? resolveMemberNames?
      imageCache:
        localEnabled?
      kubePrism:
        enabled? port#
      kubernetesTalosAPIAccess:
        allowedKubernetesNamespaces[] allowedRoles[] enabled?
    files[]:
      content op path permissions+
    install:
      bootloader? disk extraKernelArgs[] grubUseUKICmdline?@12+ image legacyBIOSSupport? wipe?
      diskSelector:
        busPath modalias model name serial size=sizes type uuid wwid
      extensions[]:
        image
    kernel:
      modules[]:
        name parameters[]
    kubelet:
      clusterDNS[] credentialProviderConfig{}* defaultRuntimeSeccompProfileEnabled? disableManifestsDirectory?
      extraArgs{}@-12 extraArgs{}|@13+ extraConfig{}* image registerWithFQDN? skipNodeRegistration?
      extraMounts[]:
        destination options[] source type
        gidMappings[]:
          containerID+ hostID+ size+
        uidMappings[]:
          containerID+ hostID+ size+
      nodeIP:
        validSubnets[]
    logging:
      destinations[]:
        endpoint=url extraTags{} format
    network:
      disableSearchDomain? hostname nameservers[] searchDomains[]
      extraHostEntries[]:
        aliases[] ip
      interfaces[]:
        addresses[] cidr dhcp? dummy? ignore? interface mtu#
        bond:
          adActorSysPrio=uint16 adActorSystem adSelect adUserPortKey=uint16 allSlavesActive=uint8 arpAllTargets
          arpIPTarget[] arpInterval+ arpValidate downdelay+ failOverMac interfaces[] lacpRate lpInterval+ miimon+
          minLinks+ mode numPeerNotif=uint8 packetsPerSlave+ peerNotifyDelay+ primary primaryReselect resendIgmp+
          tlbDynamicLb=uint8 updelay+ useCarrier? xmitHashPolicy
          deviceSelectors[]:
            busPath driver hardwareAddr pciID permanentAddr physical?
        bridge:
          interfaces[]
          stp:
            enabled?
          vlan:
            vlanFiltering?
        bridgePort:
          master
        deviceSelector:
          busPath driver hardwareAddr pciID permanentAddr physical?
        dhcpOptions:
          duidv6 ipv4? ipv6? routeMetric+
        routes[]:
          gateway metric+ mtu+ network source
        vip:
          ip
          equinixMetal:
            apiToken
          hcloud:
            apiToken
        vlans[]:
          addresses[] cidr dhcp? mtu+ vlanId=uint16
          dhcpOptions:
            duidv6 ipv4? ipv6? routeMetric+
          routes[]:
            gateway metric+ mtu+ network source
          vip:
            ip
            equinixMetal:
              apiToken
            hcloud:
              apiToken
        wireguard:
          firewallMark# listenPort# privateKey
          peers[]:
            allowedIPs[] endpoint persistentKeepaliveInterval~ publicKey
      kubespan:
        advertiseKubernetesNetworks? allowDownPeerBypass? enabled? harvestExtraEndpoints? mtu+
        filters:
          endpoints[] excludeAdvertisedNetworks[]@12+
    registries:
      config{}:
        auth:
          auth identityToken password username
        tls:
          ca=base64 insecureSkipVerify?
          clientIdentity:
            crt=base64 key=base64
      mirrors{}:
        endpoints[] overridePath? skipFallback?
    seccompProfiles[]:
      name value{}*
    systemDiskEncryption:
      ephemeral:
        blockSize+ cipher keySize+ options[] provider
        keys[]:
          slot#
          kms:
            endpoint
          nodeID:
          static:
            passphrase
          tpm:
            checkSecurebootStatusOnEnroll?
      state:
        blockSize+ cipher keySize+ options[] provider
        keys[]:
          slot#
          kms:
            endpoint
          nodeID:
          static:
            passphrase
          tpm:
            checkSecurebootStatusOnEnroll?
    time:
      bootTimeout~ disabled? servers[]
    udev:
      rules[]
"""

DOCUMENTS = """
BlackholeRouteConfig@13+:
  metric+ name
BondConfig@12+:
  adActorSysPrio=uint16 adLACPActive=lacpactive adSelect=adselect adUserPortKey=uint16 allSlavesActive=uint8
  arpAllTargets=arptargets arpInterval+ arpIpTargets[]=address arpValidate=arpvalidate bondMode=bondmode downdelay+
  failOverMac=failovermac hardwareAddr=hardware lacpRate=lacprate links[] lpInterval+ miimon+ minLinks+
  missedMax=uint8 mtu+ multicast? name nsIp6Targets[]=address numPeerNotif=uint8 packetsPerSlave+ peerNotifDelay+
  primaryReselect=reselect resendIGMP+ tlbLogicalLb=uint8 up? updelay+ useCarrier? xmitHashPolicy=hashpolicy
  addresses[]:
    address=cidr routePriority+
  routes[]:
    destination=cidr gateway=address metric+ mtu+ source=address table=table
BridgeConfig@12+:
  hardwareAddr=hardware links[] mtu+ multicast? name up?
  addresses[]:
    address=cidr routePriority+
  routes[]:
    destination=cidr gateway=address metric+ mtu+ source=address table=table
  stp:
    enabled?
  vlan:
    filtering?
DHCPv4Config@12+:
  clientIdentifier=identifier duidRaw=hardware ignoreHostname? name routeMetric+
DHCPv6Config@12+:
  clientIdentifier=identifier duidRaw=hardware ignoreHostname? name routeMetric+
DiscoveryServiceConfig@14+:
  endpoint=url name
DummyLinkConfig@12+:
  hardwareAddr=hardware mtu+ multicast? name up?
  addresses[]:
    address=cidr routePriority+
  routes[]:
    destination=cidr gateway=address metric+ mtu+ source=address table=table
EnvironmentConfig@13+:
  variables{}
EthernetConfig:
  features{}? name wakeOnLan[]=wol@12+
  channels:
    combined+ other+ rx+ tx+
  rings:
    cqe-size+ rx+ rx-buf-len+ rx-jumbo+ rx-mini+ rx-push? tcp-data-split? tx+ tx-push? tx-push-buf-len+
EventSinkConfig:
  endpoint
ExistingVolumeConfig@11+:
  name
  discovery:
    volumeSelector:
      match
  mount:
    disableAccessTime?@13+ readOnly? secure?@13+
  trim@14+:
    enabled? interval~
ExtensionServiceConfig:
  environment[] name
  configFiles[]:
    content mountPath
ExternalVolumeConfig@13+:
  filesystemType=filesystem name
  mount:
    disableAccessTime? readOnly? secure?
    virtiofs:
      tag
FilesystemTrimConfig@14+:
  interval~
HTTPProbeConfig@14+:
  failureThreshold# interval~ name timeout~ url=url
HostnameConfig@12+:
  auto=auto hostname
ImageCacheConfig@14+:
  local:
    enabled?
ImageVerificationConfig@13+:
  rules[]:
    deny? image skip?
    keyless:
      issuer subject subjectRegex
    publicKey:
      certificate
KmsgLogConfig:
  name url=url
KubeNetworkConfig@14+:
  dnsDomain podSubnets[]=cidr serviceSubnets[]=cidr
KubeSpanConfig@13+:
  advertiseKubernetesNetworks? allowDownPeerBypass? enabled? harvestExtraEndpoints? mtu+
  filters:
    endpoints[] excludeAdvertisedNetworks[]=cidr
KubeSpanEndpointsConfig:
  extraAnnouncedEndpoints[]=addressport
LVMLogicalVolumeConfig@14+:
  mirrors+ name stripes+ type=lvmtype
  provisioning:
    maxSize=space minSize=bytes volumeGroup
LVMVolumeGroupConfig@14+:
  name
  provisioning:
    volumeSelector:
      match
LinkAliasConfig@12+:
  name
  selector:
    match
LinkConfig@12+:
  mtu+ multicast? name up?
  addresses[]:
    address=cidr routePriority+
  routes[]:
    destination=cidr gateway=address metric+ mtu+ source=address table=table
NetworkDefaultActionConfig:
  ingress=action
NetworkRuleConfig:
  name
  ingress[]:
    except=cidr subnet=cidr
  portSelector:
    ports[] protocol=protocol
OOMConfig@12+:
  cgroupRankingExpression sampleInterval~ strictCgroupClassOrdering?@13+ triggerExpression
PCIDriverRebindConfig:
  name targetDriver
RawVolumeConfig@11+:
  name
  encryption:
    allowDiscards?@14+ blockSize+ cipher keySize+ options[] provider=encryption
    keys[]:
      lockToState? slot#
      kms:
        endpoint
      nodeID:
      static:
        passphrase
      tpm:
        checkSecurebootStatusOnEnroll?
        options@12+:
          pcrs[]#
  provisioning:
    grow? maxSize=bytes@-11 maxSize=space@12+ minSize=bytes
    diskSelector:
      match
RegistryAuthConfig@12+:
  auth identityToken name password username
RegistryMirrorConfig@12+:
  name skipFallback?
  endpoints[]:
    overridePath? url=url
RegistryTLSConfig@12+:
  ca insecureSkipVerify? name
  clientIdentity:
    cert key
ResolverConfig@12+:
  hostDNS@14+:
    enabled? forwardKubeDNSToHost? resolveMemberNames?
  nameservers[]:
    address=address protocol=dns@14+ tlsServerName@14+
  searchDomains:
    disableDefault? domains[]
RoutingRuleConfig@13+:
  action=ruleaction dst=cidr fwMark+ fwMask+ iifName name oifName src=cidr table=table
SideroLinkConfig:
  apiUrl=url uniqueToken
StaticHostConfig@12+:
  hostnames[] name
SwapVolumeConfig@11+:
  name
  encryption:
    allowDiscards?@14+ blockSize+ cipher keySize+ options[] provider=encryption
    keys[]:
      lockToState? slot#
      kms:
        endpoint
      nodeID:
      static:
        passphrase
      tpm:
        checkSecurebootStatusOnEnroll?
        options@12+:
          pcrs[]#
  provisioning:
    grow? maxSize=bytes@-11 maxSize=space@12+ minSize=bytes
    diskSelector:
      match
SysctlConfig@14+:
  params{}
SysfsConfig@14+:
  params{}
TCPProbeConfig@13+:
  endpoint failureThreshold# interval~ name timeout~
TimeSyncConfig@12+:
  bootTimeout~ enabled?
  ntp:
    servers[] useNTS?@14+
  ptp:
    devices[]
TrustedRootsConfig:
  certificates name
UserVolumeConfig:
  name volumeType=volume@12+
  encryption:
    allowDiscards?@14+ blockSize+ cipher keySize+ options[] provider=encryption
    keys[]:
      lockToState?@11+ slot#
      kms:
        endpoint
      nodeID:
      static:
        passphrase
      tpm:
        checkSecurebootStatusOnEnroll?
        options@12+:
          pcrs[]#
  filesystem:
    projectQuotaSupport?@11+ type=filesystem
  mount@13+:
    disableAccessTime? secure?
  provisioning:
    grow? maxSize=bytes@-11 maxSize=space@12+ minSize=bytes
    diskSelector:
      match
  trim@14+:
    enabled? interval~
VLANConfig@12+:
  mtu+ multicast? name parent up? vlanID=uint16 vlanMode=vlanmode
  addresses[]:
    address=cidr routePriority+
  routes[]:
    destination=cidr gateway=address metric+ mtu+ source=address table=table
VRFConfig@13+:
  hardwareAddr=hardware links[] mtu+ multicast? name table=table up?
  addresses[]:
    address=cidr routePriority+
  routes[]:
    destination=cidr gateway=address metric+ mtu+ source=address table=table
VolumeConfig:
  name
  encryption@11+:
    allowDiscards?@14+ blockSize+ cipher keySize+ options[] provider=encryption
    keys[]:
      lockToState? slot#
      kms:
        endpoint
      nodeID:
      static:
        passphrase
      tpm:
        checkSecurebootStatusOnEnroll?
        options@12+:
          pcrs[]#
  mount@13+:
    disableAccessTime?@14+ secure?
  provisioning:
    grow? maxSize=bytes@-11 maxSize=space@12+ minSize=bytes
    diskSelector:
      match
  trim@14+:
    enabled? interval~
WatchdogTimerConfig:
  device timeout~
WireguardConfig@12+:
  firewallMark# listenPort# mtu+ multicast? name privateKey up?
  addresses[]:
    address=cidr routePriority+
  peers[]:
    allowedIPs[]=cidr endpoint=addressport persistentKeepaliveInterval~ presharedKey publicKey
  routes[]:
    destination=cidr gateway=address metric+ mtu+ source=address table=table
ZswapConfig@11+:
  maxPoolPercent# shrinkerEnabled?
"""

# They came with 1.14 after its last release that could be tested: their keys are unknown.
UNSEEN_KINDS = """
CRICustomizationConfig*@14+ DiscoveryIdentityConfig*@14+ EtcFileConfig*@14+ KernelModuleConfig*@14+
KubeAPIServerCAConfig*@14+ KubeClusterConfig*@14+ KubeNodeConfig*@14+ KubePrismConfig*@14+ KubeletConfig*@14+
UnattendedInstallConfig*@14+
"""

CONTROL_PLANE_KINDS = """
HCloudVIPConfig*@12+ KubeAPIServerConfig*@14+ KubeAdmissionControlConfig*@14+ KubeAuditPolicyConfig*@14+
KubeAuthenticationConfig*@14+ KubeAuthorizerConfig*@14+ KubeControllerManagerConfig*@14+
KubeEtcdEncryptionConfig*@14+ KubeFlannelCNIConfig*@14+ KubeProxyConfig*@14+ KubeSchedulerConfig*@14+
Layer2VIPConfig*@12+ KubeTalosAPIAccessConfig*@14+
"""
