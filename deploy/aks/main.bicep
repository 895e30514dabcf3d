// An AKS cluster with two small nodes, and a registry that it may pull from.
// NOT EXECUTED: no test of this repository deploys it. Read it before you use it.
// AKS nodes do not run Talos: rented machines cannot join. Budgets and machines you own work.

@description('Name of the cluster, and prefix of its DNS name.')
param clusterName string = 'tgp'

@description('Where everything is created.')
param location string = resourceGroup().location

@description('Kubernetes 1.28 or newer; 1.30 or newer for the admission policies.')
param kubernetesVersion string = '1.31'

@minValue(1)
param nodeCount int = 2

param nodeSize string = 'Standard_B2s'

@description('Letters and digits only, unique in Azure.')
param registryName string = 'tgp${uniqueString(resourceGroup().id)}'

var acrPull = subscriptionResourceId('Microsoft.Authorization/roleDefinitions', '7f951dda-4ed3-4680-a7ca-43fe172d538d')

resource registry 'Microsoft.ContainerRegistry/registries@2023-07-01' = {
  name: registryName
  location: location
  sku: {
    name: 'Basic'
  }
  properties: {
    adminUserEnabled: false // the cluster pulls with its own identity
  }
}

resource cluster 'Microsoft.ContainerService/managedClusters@2024-05-01' = {
  name: clusterName
  location: location
  identity: {
    type: 'SystemAssigned'
  }
  properties: {
    dnsPrefix: clusterName
    kubernetesVersion: kubernetesVersion
    agentPoolProfiles: [
      {
        name: 'system'
        mode: 'System'
        count: nodeCount
        vmSize: nodeSize
        osType: 'Linux'
      }
    ]
    networkProfile: {
      networkPlugin: 'azure'
      networkPluginMode: 'overlay'
    }
  }
}

resource pull 'Microsoft.Authorization/roleAssignments@2022-04-01' = {
  name: guid(registry.id, clusterName, acrPull)
  scope: registry
  properties: {
    roleDefinitionId: acrPull
    principalId: cluster.properties.identityProfile.kubeletidentity.objectId
    principalType: 'ServicePrincipal'
  }
}

output registryServer string = registry.properties.loginServer
